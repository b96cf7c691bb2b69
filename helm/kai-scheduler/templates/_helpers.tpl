{{/*
Tag of an image: include "kai.tag" (dict "root" $ "image" .Values.x.image). A digest names one image and no other:
where there is one, whoever wrote it has chosen that of FIPS mode or not.
*/}}
{{- define "kai.tag" -}}
{{- $root := .root -}}
{{- $tag := .image.tag | default $root.Values.global.tag | default $root.Chart.AppVersion -}}
{{- ternary (printf "%s-fips" $tag) $tag (and (eq $root.Values.global.fipsMode "on") (not (contains "sha256:" $tag))) -}}
{{- end -}}

{{/* An image: root, image. */}}
{{- define "kai.image" -}}
{{- $tag := include "kai.tag" . -}}
{{- printf "%s/%s%s%s" (.image.registry | default .root.Values.global.registry) .image.name (ternary "@" ":" (hasPrefix "sha256:" $tag)) $tag -}}
{{- end -}}

{{/* A value as text: helm reads numbers of a file as floats, which would be written with an exponent from a million on. */}}
{{- define "kai.text" -}}{{ ternary (toJson .) (toString .) (kindIs "float64" .) }}{{- end -}}

{{/* Puts texts in place of all numbers in a mapping. */}}
{{- define "kai.numbersToTexts" -}}
{{- range $key, $each := . -}}
{{- if kindIs "map" $each -}}
{{- include "kai.numbersToTexts" $each -}}
{{- else if kindIs "slice" $each -}}
{{- range $each -}}{{- if kindIs "map" . -}}{{- include "kai.numbersToTexts" . -}}{{- end -}}{{- end -}}
{{- else if has (kindOf $each) (list "float64" "int64" "int") -}}
{{- $_ := set $ $key (include "kai.text" $each) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A mapping of amounts or durations: as numbers a custom resource takes whole ones only of amounts, and no durations. */}}
{{- define "kai.texts" -}}
{{- $made := deepCopy . -}}
{{- include "kai.numbersToTexts" $made -}}
{{- toYaml $made -}}
{{- end -}}

{{/* A VerticalPodAutoscaler's fields. */}}
{{- define "kai.vpa" -}}
{{- $made := deepCopy . -}}
{{- with $made.resourcePolicy -}}{{- include "kai.numbersToTexts" . -}}{{- end -}}
{{- toYaml $made -}}
{{- end -}}

{{/* What an amount is in numbers, to compare it with another. */}}
{{- define "kai.amount" -}}
{{- $text := include "kai.text" . -}}
{{- $units := dict "n" 1e-9 "u" 1e-6 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18
      "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0 -}}
{{- $unit := regexFind "([KMGTPE]i|[numkMGTPE])$" $text -}}
{{- mulf (float64 (trimSuffix $unit $text)) (get $units $unit | default 1.0) -}}
{{- end -}}

{{/* Resources of the operator. As in a Config, of requests and limits a default gives way to what is said. */}}
{{- define "kai.operatorResources" -}}
{{- $default := (include "kai.defaults" . | fromYaml).operator.resources -}}
{{- $given := deepCopy .Values.operator.resources -}}
{{- $limits := $given.limits | default dict -}}
{{- range $name, $request := $given.requests | default dict -}}
{{- $limit := get $limits $name -}}
{{- if and (hasKey $limits $name) (gt (float64 (include "kai.amount" $request)) (float64 (include "kai.amount" $limit))) -}}
{{- if eq (toString $limit) (get $default.limits $name | toString) -}}
{{- $_ := set $limits $name $request -}}
{{- else if eq (toString $request) (get $default.requests $name | toString) -}}
{{- $_ := set $given.requests $name $limit -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "kai.texts" $given -}}
{{- end -}}

{{/* Labels of every object. */}}
{{- define "kai.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/part-of: kai-scheduler
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* "true" on OpenShift, where user ids are given out by the cluster. */}}
{{- define "kai.openshift" -}}
{{- if or .Values.openshift (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "clusterversions.config.openshift.io") -}}true{{- end -}}
{{- end -}}

{{/* Names of the priority classes that the operator makes, as a list. */}}
{{- define "kai.priorityClasses" -}}
{{ list "train" "build-preemptible" "build" "inference" | toJson }}
{{- end -}}

{{/* The pod's security context. */}}
{{- define "kai.podSecurityContext" -}}
{{- $default := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- if not (include "kai.openshift" .) -}}
{{- $_ := set $default "runAsUser" 10000 -}}
{{- $_ := set $default "runAsGroup" 10000 -}}
{{- end -}}
{{- $given := deepCopy .Values.global.podSecurityContext -}}
{{- include "kai.fill" (dict "into" $given "from" $default) -}}
{{- toYaml $given -}}
{{- end -}}

{{/* The container's security context. */}}
{{- define "kai.securityContext" -}}
{{- $default := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- $given := deepCopy .Values.global.securityContext -}}
{{- include "kai.fill" (dict "into" $given "from" $default) -}}
{{- toYaml $given -}}
{{- end -}}

{{/* Affinity: a component's own sections win over the global ones; if nobody says where replicas go, they are spread. */}}
{{- define "kai.affinity" -}}
{{- $affinity := deepCopy .root.Values.global.affinity -}}
{{- range $section, $own := .affinity -}}{{- $_ := set $affinity $section $own -}}{{- end -}}
{{- if not (hasKey $affinity "podAntiAffinity") -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (dict "app" .name)) -}}
{{- $spread := dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term)) -}}
{{- if .root.Values.global.requireDefaultPodAntiAffinityTerm -}}
{{- $_ := set $spread "requiredDuringSchedulingIgnoredDuringExecution" (list $term) -}}
{{- end -}}
{{- $_ := set $affinity "podAntiAffinity" $spread -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}

{{/* Whether a component's args set this switch: values, flag. */}}
{{- define "kai.flagIsOn" -}}
{{- if has (get (.values.args | default dict) .flag | toString | lower) (list "true" "t" "yes" "y" "on" "1") -}}true{{- end -}}
{{- end -}}

{{/* Whether a component's args take this switch back: values, flag. */}}
{{- define "kai.flagIsOff" -}}
{{- if has (get (.values.args | default dict) .flag | toString | lower) (list "false" "f" "no" "n" "off" "0") -}}true{{- end -}}
{{- end -}}

{{/* Whether there is a Redis at all. */}}
{{- define "kai.redisUsed" -}}
{{- if or .Values.redis.enabled .Values.redis.externalUrl .Values.redis.externalSecret.name -}}true{{- end -}}
{{- end -}}

{{/* Whether it is one of our own, beside the other components. */}}
{{- define "kai.ownRedis" -}}
{{- and .Values.redis.enabled (not .Values.redis.externalUrl) (not .Values.redis.externalSecret.name) -}}
{{- end -}}

{{/* The port of one that is not ours. */}}
{{- define "kai.externalRedisPort" -}}
{{- $redis := .Values.redis -}}
{{- if $redis.externalSecret.name -}}
{{- $redis.externalSecret.port -}}
{{- else -}}
{{- regexFind ":[0-9]+$" (urlParse $redis.externalUrl).host | trimPrefix ":" | default "6379" -}}
{{- end -}}
{{- end -}}
