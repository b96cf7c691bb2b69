{{/* Image of a component: include "kai.image" (dict "root" $ "image" .Values.x.image) */}}
{{- define "kai.image" -}}
{{- $root := .root -}}
{{- printf "%s/%s:%s" $root.Values.global.registry .image.name (.image.tag | default $root.Values.global.tag | default $root.Chart.AppVersion) -}}
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

{{/* The pod's security context. */}}
{{- define "kai.podSecurityContext" -}}
{{- $default := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- if not (include "kai.openshift" .) -}}
{{- $_ := set $default "runAsUser" 10000 -}}
{{- $_ := set $default "runAsGroup" 10000 -}}
{{- end -}}
{{- toYaml (mergeOverwrite $default (deepCopy .Values.global.podSecurityContext)) -}}
{{- end -}}

{{/* The container's security context. */}}
{{- define "kai.securityContext" -}}
{{- $default := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- toYaml (mergeOverwrite $default (deepCopy .Values.global.securityContext)) -}}
{{- end -}}

{{/* Affinity: a component's own sections win over the global ones; if nobody says where replicas go, they are spread. */}}
{{- define "kai.affinity" -}}
{{- $affinity := merge (deepCopy .affinity) (deepCopy .root.Values.global.affinity) -}}
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

{{/* Replicas of a component. */}}
{{- define "kai.replicas" -}}
{{- if kindIs "invalid" .values.replicas -}}{{ .root.Values.global.replicaCount }}{{- else -}}{{ .values.replicas }}{{- end -}}
{{- end -}}

{{/* Flags that every component takes, one to a line. */}}
{{- define "kai.commonFlags" -}}
- --namespace={{ .root.Release.Namespace }}
- --log-json={{ .root.Values.global.jsonLog }}
{{- if gt (int (include "kai.replicas" .)) 1 }}
- --leader-elect
{{- end }}
{{- end -}}

{{/* A component's own flags from its values; they come last and win. */}}
{{- define "kai.extraFlags" -}}
{{- range $flag, $value := .args }}
- {{ printf "--%s=%v" $flag $value | quote }}
{{- end }}
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

{{/* The secret that says how to reach Redis, mounted at /etc/kai/redis; empty without a Redis. */}}
{{- define "kai.redisSecret" -}}
{{- if .Values.redis.externalSecret.name -}}{{- .Values.redis.externalSecret.name -}}
{{- else if include "kai.redisUsed" . -}}kai-redis
{{- end -}}
{{- end -}}

{{/* Environment by which a component finds Redis: the URL may hold a password, so it stays in the secret. */}}
{{- define "kai.redisEnvironment" -}}
{{- with include "kai.redisSecret" . -}}
- name: KAI_REDIS_URL
  valueFrom: {secretKeyRef: {name: {{ . | quote }}, key: {{ ternary $.Values.redis.externalSecret.key "url" (ne $.Values.redis.externalSecret.name "") | quote }}}}
{{- end }}
{{- end -}}

{{/* Flags for what the URL of Redis does not say. */}}
{{- define "kai.redisFlags" -}}
{{- $redis := .Values.redis -}}
{{- if eq (include "kai.ownRedis" .) "true" }}
- --redis-password-file=/etc/kai/redis/password
{{- if .Values.global.tls.enabled }}
- --redis-ca=/etc/kai/redis-authority/ca.crt
- --redis-server-name=kai-redis
{{- end }}
{{- else if and $redis.externalSecret.name $redis.externalSecret.caKey }}
- --redis-ca=/etc/kai/redis/{{ $redis.externalSecret.caKey }}
{{- else if and $redis.externalUrl (not $redis.externalSecret.name) $redis.externalCa }}
- --redis-ca=/etc/kai/redis/ca.crt
{{- end }}
{{- end -}}
