{{/* An image as a Config names it: root, image. */}}
{{- define "kai.configImage" -}}
repository: {{ .image.registry | default .root.Values.global.registry | quote }}
name: {{ .image.name | quote }}
tag: {{ include "kai.tag" . | quote }}
pullPolicy: {{ .image.pullPolicy | default .root.Values.global.imagePullPolicy }}
{{- end -}}

{{/* Flags as texts. */}}
{{- define "kai.configFlags" -}}
{{- range $flag, $value := . }}
{{ $flag }}: {{ include "kai.text" $value | quote }}
{{- end }}
{{- end -}}

{{/* How a component runs: root, values, enabled. */}}
{{- define "kai.configService" -}}
service:
  enabled: {{ ternary .values.enabled .enabled (not (hasKey . "enabled")) }}
  image: {{- include "kai.configImage" (dict "root" .root "image" .values.image) | nindent 4 }}
  {{- with .values.resources }}
  resources: {{- include "kai.texts" . | nindent 4 }}
  {{- end }}
  {{- with .values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.podDisruptionBudget }}
  podDisruptionBudget: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.k8sClientConfig }}
  k8sClientConfig: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if and .values.args (not .shard) }}
  extraArgs: {{- include "kai.configFlags" .values.args | nindent 4 }}
  {{- end }}
{{- if not (kindIs "invalid" .values.replicas) }}
replicas: {{ int .values.replicas }}
{{- end }}
{{- with .values.vpa }}
vpa: {{- include "kai.vpa" . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A number of days as a duration. */}}
{{- define "kai.days" -}}{{ mul 24 (int .) }}h{{- end -}}

{{/* How long before their end certificates are renewed: days are left, else a third of their time. */}}
{{- define "kai.renewBefore" -}}
{{- $valid := int .validDays -}}
{{- $after := int .renewAfterDays -}}
{{- if and $after (lt $after $valid) -}}
{{- include "kai.days" (sub $valid $after) -}}
{{- else -}}
{{- div (mul 24 $valid) 3 }}h
{{- end -}}
{{- end -}}

{{/* What a Config says. */}}
{{- define "kai.configSpec" -}}
{{- $root := . -}}
{{- $v := .Values -}}
{{- $reservation := $v.global.resourceReservation -}}
namespace: {{ .Release.Namespace }}
global:
  {{- if include "kai.openshift" . }}
  openshift: true
  {{- end }}
  # The larger of both: the first is the original's, the second of releases of ours that had no operator.
  replicaCount: {{ max (int $v.operator.replicaCount) (int ($v.global.replicaCount | default 0)) }}
  schedulerName: {{ $v.global.schedulerName | quote }}
  queueLabelKey: {{ $v.podgrouper.queueLabelKey | quote }}
  nodePoolLabelKey: {{ $v.global.nodePoolLabelKey | quote }}
  {{- with $v.global.gpuSharingMode }}
  gpuSharingMode: {{ . }}
  {{- end }}
  jsonLog: {{ $v.global.jsonLog }}
  tls: {enabled: {{ $v.global.tls.enabled }}}
  requireDefaultPodAntiAffinityTerm: {{ $v.global.requireDefaultPodAntiAffinityTerm }}
  {{- range $field := list "namespaceLabelSelector" "podLabelSelector" "securityContext" "podSecurityContext" "affinity"
      "nodeSelector" "tolerations" "daemonsetsTolerations" }}
  {{- with get $v.global $field }}
  {{ $field }}: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- with $v.global.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with $v.global.imagePullSecrets }}
  additionalImagePullSecrets:
    {{- range . }}
    - {{ .name | quote }}
    {{- end }}
  {{- end }}
  {{- $vpa := dict "enabled" $v.global.vpa.enabled }}
  {{- range $field := list "updatePolicy" "resourcePolicy" }}
  {{- with get $v.global.vpa $field }}{{ $_ := set $vpa $field . }}{{ end }}
  {{- end }}
  vpa: {{- include "kai.vpa" $vpa | nindent 4 }}
admission:
  {{- include "kai.configService" (dict "root" $root "values" $v.admission) | nindent 2 }}
  webhook:
    targetPort: {{ $v.admission.ports.webhookPort }}
    probePort: {{ $v.admission.ports.probePort }}
    metricsPort: {{ $v.admission.ports.metricsPort }}
  {{- if and (not $v.global.gpuSharingMode) (not (kindIs "invalid" $v.global.gpuSharing)) }}
  gpuSharing: {{ $v.global.gpuSharing }}
  {{- end }}
  blockNvidiaVisibleDevices: {{ $v.global.blockNvidiaVisibleDevices }}
  queueLabelSelector: {{ $v.admission.queueLabelSelector }}
  {{- $class := $v.admission.gpuFractionRuntimeClassName | default "" }}
  {{- if has $class (list "" "nvidia") }}
  {{- /* Nobody named another class by the newer name: what the older name says counts. */}}
  {{- $class = $v.admission.gpuPodRuntimeClassName | default $class }}
  {{- end }}
  gpuFractionRuntimeClassName: {{ $class | quote }}
podGrouper:
  {{- include "kai.configService" (dict "root" $root "values" $v.podgrouper) | nindent 2 }}
  args:
    genericKartaFallback: {{ $v.podgrouper.genericKartaFallback }}
    gangScheduleKnative: {{ $v.podgrouper.knativeGangSchedule }}
    {{- range $field := list "defaultPrioritiesConfigMapName" "defaultPrioritiesConfigMapNamespace" }}
    {{- with get $v.podgrouper $field }}
    {{ $field }}: {{ . | quote }}
    {{- end }}
    {{- end }}
podGroupController:
  {{- include "kai.configService" (dict "root" $root "values" $v.podgroupcontroller) | nindent 2 }}
  webhooks: {enableValidation: {{ $v.podgroupcontroller.webhook.enabled }}}
queueController:
  {{- include "kai.configService" (dict "root" $root "values" $v.queuecontroller) | nindent 2 }}
  webhooks:
    enableValidation: {{ $v.queuecontroller.webhook.enabled }}
    refuseDeletion: {{ $v.queuecontroller.webhook.refuseDeletion }}
  metricsNamespace: {{ $v.queuecontroller.metricsNamespace | quote }}
  {{- range $field := list "queueLabelToMetricLabel" "queueLabelToDefaultMetricValue" }}
  {{- with get $v.queuecontroller $field }}
  {{ $field }}: {{ . | quote }}
  {{- end }}
  {{- end }}
scheduler:
  {{- include "kai.configService" (dict "root" $root "values" $v.scheduler "shard" true) | nindent 2 }}
  schedulerService:
    port: {{ $v.scheduler.ports.metricsPort }}
    targetPort: {{ $v.scheduler.ports.metricsPort }}
    grpcPort: {{ $v.scheduler.ports.grpcPort }}
binder:
  {{- include "kai.configService" (dict "root" $root "values" $v.binder) | nindent 2 }}
  metricsPort: {{ $v.binder.ports.metricsPort }}
  {{- if not (kindIs "invalid" $v.binder.cdiEnabled) }}
  cdiEnabled: {{ $v.binder.cdiEnabled }}
  {{- end }}
  {{- with $v.binder.plugins }}
  plugins: {{- toYaml . | nindent 4 }}
  {{- end }}
  resourceReservation:
    namespace: {{ $reservation.namespace }}
    serviceAccountName: {{ $reservation.serviceAccount }}
    createServiceAccount: {{ $reservation.createServiceAccount }}
    appLabel: {{ $reservation.appLabel }}
    runtimeClassName: {{ $v.binder.runtimeClassName | default $reservation.runtimeClassName | default "" | quote }}
    image: {{- include "kai.configImage" (dict "root" $root "image" $v.binder.resourceReservationImage) | nindent 6 }}
    {{- with $v.binder.resourceReservationPodResources }}
    podResources: {{- include "kai.texts" . | nindent 6 }}
    {{- end }}
nodeScaleAdjuster:
  {{- include "kai.configService" (dict "root" $root "values" $v.nodescaleadjuster "enabled" $v.global.clusterAutoscaling) | nindent 2 }}
  args:
    scalingPodImage: {{- include "kai.configImage" (dict "root" $root "image" $v.nodescaleadjuster.scalingPodImage) | nindent 6 }}
    nodeScaleNamespace: {{ $v.nodescaleadjuster.scalingPodNamespace }}
    gpuMemoryToFractionRatio: {{ include "kai.text" $v.nodescaleadjuster.gpuMemoryToFractionRatio }}
numaPlacementExporter:
  {{- $exporter := $v.numaPlacementExporter }}
  service:
    {{- if not (kindIs "invalid" $exporter.enabled) }}
    enabled: {{ $exporter.enabled }}
    {{- end }}
    image: {{- include "kai.configImage" (dict "root" $root "image" $exporter.image) | nindent 6 }}
    {{- with $exporter.resources }}
    resources: {{- include "kai.texts" . | nindent 6 }}
    {{- end }}
    {{- with $exporter.affinity }}
    affinity: {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $exporter.args }}
    extraArgs: {{- include "kai.configFlags" . | nindent 6 }}
    {{- end }}
  {{- range $field := list "nodeSelector" "tolerations" }}
  {{- with get $exporter $field }}
  {{ $field }}: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- range $field := list "pollInterval" "driftResyncInterval" "podResourcesHostPath" "podResourcesSocket" "sysfsHostPath" }}
  {{- with include "kai.text" (get $exporter $field) }}
  {{ $field }}: {{ . | quote }}
  {{- end }}
  {{- end }}
insight:
  {{- include "kai.configService" (dict "root" $root "values" $v.insight) | nindent 2 }}
  retention: {{ $v.insight.retention | quote }}
  grpcPort: {{ $v.insight.ports.grpcPort }}
  httpPort: {{ $v.insight.ports.httpPort }}
  persistence: {{- include "kai.texts" $v.insight.persistence | nindent 4 }}
  externalSecret: {{- toYaml $v.insight.externalSecret | nindent 4 }}
redis:
  enabled: {{ if include "kai.redisUsed" . }}true{{ else }}false{{ end }}
  image: {{- include "kai.configImage" (dict "root" $root "image" $v.redis.image) | nindent 4 }}
  port: {{ $v.redis.port }}
  {{- with $v.redis.maxMemory }}
  maxMemory: {{ . | quote }}
  {{- end }}
  {{- with $v.redis.resources }}
  resources: {{- include "kai.texts" . | nindent 4 }}
  {{- end }}
  {{- with $v.redis.persistence }}
  persistence: {{- include "kai.texts" (ternary . (omit . "enabled") (kindIs "bool" .enabled)) | nindent 4 }}
  {{- end }}
  {{- if $v.redis.externalSecret.name }}
  externalSecret: {{- toYaml $v.redis.externalSecret | nindent 4 }}
  {{- else if $v.redis.externalUrl }}
  externalSecret:
    name: {{ include "kai.externalRedisSecret" . }}
    key: url
    {{- with $v.redis.externalCa }}
    caKey: ca.crt
    {{- end }}
    port: {{ include "kai.externalRedisPort" . }}
  {{- end }}
networkPolicy: {{- toYaml $v.networkPolicy | nindent 2 }}
certificates:
  lifetime: {{ include "kai.days" $v.certificates.validDays }}
  renewBefore: {{ include "kai.renewBefore" $v.certificates }}
  authorityLifetime: {{ include "kai.days" (max (int $v.certificates.authorityValidDays) (add 1 (int $v.certificates.validDays))) }}
  existing: {{- toYaml $v.certificates.existing | nindent 4 }}
defaultPriorityClasses: {enabled: {{ $v.defaultPriorityClasses.enabled }}}
prometheus:
  enabled: {{ $v.prometheus.enabled }}
  {{- with $v.prometheus.externalPrometheusUrl }}
  externalPrometheusUrl: {{ . | quote }}
  {{- end }}
{{- end -}}

{{/*
Name of the secret that is made of redis.externalUrl. Processes read it as they start, so another content has
another name. More people may read names than secrets: each guess of a password takes an scrypt.
*/}}
{{- define "kai.externalRedisSecret" -}}
{{- $derived := derivePassword 1 "long" .Values.redis.externalUrl "kai" (print "ca:" .Values.redis.externalCa) -}}
kai-redis-external-{{ sha256sum $derived | trunc 8 }}
{{- end -}}
