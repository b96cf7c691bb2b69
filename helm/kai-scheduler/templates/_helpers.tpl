{{/* Tag of an image: include "kai.tag" (dict "root" $ "image" .Values.x.image) */}}
{{- define "kai.tag" -}}
{{- $root := .root -}}
{{- $tag := .image.tag | default $root.Values.global.tag | default $root.Chart.AppVersion -}}
{{- ternary (printf "%s-fips" $tag) $tag (eq $root.Values.global.fipsMode "on") -}}
{{- end -}}

{{/* An image: root, image. */}}
{{- define "kai.image" -}}
{{- printf "%s/%s:%s" (.image.registry | default .root.Values.global.registry) .image.name (include "kai.tag" .) -}}
{{- end -}}

{{/* A value as text: helm reads numbers of a file as floats, which would be written with an exponent from a million on. */}}
{{- define "kai.text" -}}{{ ternary (toJson .) (toString .) (kindIs "float64" .) }}{{- end -}}

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
