{{/*
Values that releases before the operator had none of: an upgrade with --reuse-values knows only those of the
release before it. A test holds them against values.yaml.
*/}}
{{- define "kai.newValues" -}}
global:
  replicaCount: null
  fipsMode: "off"
  leaderElection: false
  gpuSharingMode: ""
  schedulerName: kai-scheduler
  clusterAutoscaling: false
  daemonsetsTolerations: []
  vpa: {enabled: false, updatePolicy: {}, resourcePolicy: {}}
operator:
  enabled: true
  image: {name: kai-scheduler, tag: "", pullPolicy: ""}
  replicaCount: 1
  metricsBindAddress: ":8080"
  probeBindAddress: ":8081"
  qps: 50
  burst: 300
  logLevel: ""
  args: {}
  affinity: {}
  resources: {requests: {cpu: 50m, memory: 128Mi}, limits: {memory: 384Mi}}
admission: {k8sClientConfig: {}, vpa: {}}
podgrouper: {k8sClientConfig: {}, vpa: {}, knativeGangSchedule: true}
podgroupcontroller: {k8sClientConfig: {}, vpa: {}}
queuecontroller:
  k8sClientConfig: {}
  vpa: {}
  metricsNamespace: kai
  queueLabelToMetricLabel: ""
  queueLabelToDefaultMetricValue: ""
scheduler: {k8sClientConfig: {}, vpa: {}, minRuntime: {}, kValue: null}
binder: {k8sClientConfig: {}, vpa: {}}
redis:
  persistence: {enabled: null, size: 1Gi, storageClassName: "", fsync: everysec}
certificates:
  authorityValidDays: 3650
defaultShard: {enabled: true}
nodescaleadjuster:
  image: {name: kai-scheduler, tag: "", pullPolicy: ""}
  scalingPodImage: {name: kai-scheduler, tag: "", pullPolicy: ""}
  scalingPodNamespace: kai-scale-adjust
  gpuMemoryToFractionRatio: 0.1
  replicas: null
  affinity: {}
  labels: {}
  args: {}
  podDisruptionBudget: {enabled: true, maxUnavailable: 1}
  resources: {}
numaPlacementExporter:
  enabled: null
  image: {name: kai-scheduler, tag: "", pullPolicy: ""}
  nodeSelector: {}
  tolerations: []
  affinity: {}
  resources: {}
  args: {}
  pollInterval: ""
  driftResyncInterval: ""
  podResourcesHostPath: ""
  podResourcesSocket: ""
  sysfsHostPath: ""
insight:
  enabled: false
  replicas: null
  image: {name: kai-scheduler, tag: "", pullPolicy: ""}
  retention: 30d
  persistence: {enabled: true, size: 10Gi, storageClassName: ""}
  externalSecret: {name: "", key: url, port: 5432}
  ports: {grpcPort: 9091, httpPort: 9092}
  ingress: {enabled: false, className: "", host: "", annotations: {}, tls: []}
  args: {}
  affinity: {}
  podDisruptionBudget: {enabled: true, maxUnavailable: 1}
  resources: {}
dashboards:
  enabled: false
  namespace: ""
  annotations: {}
prometheus:
  enabled: false
  externalPrometheusUrl: ""
crdupgrader:
  enabled: true
  image: {registry: "", name: kai-scheduler, tag: "", pullPolicy: ""}
  resources: {}
kaiConfig: {render: false}
kaiConfigDeployer:
  enabled: true
  image: {registry: "", name: kai-scheduler, tag: "", pullPolicy: ""}
  resources: {}
topologyMigration:
  enabled: true
  image: {registry: "", name: kai-scheduler, tag: "", pullPolicy: ""}
  resources: {}
postCleanup:
  enabled: true
  serviceAccountName: post-delete-cleanup
  image: {registry: "", name: kai-scheduler, tag: "", pullPolicy: ""}
  resources: {}
{{- end -}}

{{/*
Sections that every release knew, so that nothing fills them in. Whoever gives null for one has helm take it away
with all that stands below it.
*/}}
{{- define "kai.sections" -}}
- global
- global.resourceReservation
- global.tls
- admission
- admission.image
- admission.ports
- podgrouper
- podgrouper.image
- podgroupcontroller
- podgroupcontroller.image
- podgroupcontroller.webhook
- queuecontroller
- queuecontroller.image
- queuecontroller.webhook
- scheduler
- scheduler.image
- scheduler.ports
- binder
- binder.image
- binder.ports
- binder.resourceReservationImage
- redis
- redis.image
- redis.externalSecret
- networkPolicy
- certificates
- certificates.existing
- admissionPolicies
- defaultPriorityClasses
- defaultQueue
{{- end -}}

{{/* Fails with the sections that were taken away. */}}
{{- define "kai.refuseWithoutSections" -}}
{{- $told := list -}}
{{- range $path := include "kai.sections" . | fromYamlArray -}}
  {{- $above := $.Values -}}
  {{- $found := $.Values -}}
  {{- range $key := splitList "." $path -}}
    {{- $above = $found -}}
    {{- $found = get ($found | default dict) $key -}}
  {{- end -}}
  {{- if and $above (not $found) -}}
    {{- $told = append $told (printf "%s is null: leave it out to have it as it is by default, or write its keys" $path) -}}
  {{- end -}}
{{- end -}}
{{- with $told -}}{{- fail (printf "\n%s" (join "\n" .)) -}}{{- end -}}
{{- end -}}

{{/* Fills in what a release before this one did not know; every template that reads such values begins with it. */}}
{{- define "kai.prepare" -}}
{{- include "kai.refuseWithoutSections" . -}}
{{- include "kai.fill" (dict "into" .Values "from" (include "kai.newValues" . | fromYaml)) -}}
{{- $_ := set .Values.global "nodePoolLabelKey" (.Values.global.nodePoolLabelKey | default "kai.scheduler/node-pool") -}}
{{- $_ := set .Values.podgrouper "queueLabelKey" (.Values.podgrouper.queueLabelKey | default "kai.scheduler/queue") -}}
{{- $_ := set .Values.scheduler "placementStrategy" (.Values.scheduler.placementStrategy | default "binpack") -}}
{{- end -}}

{{/* Puts in what is not there: into, from. What is false or empty is there. */}}
{{- define "kai.fill" -}}
{{- $into := .into -}}
{{- range $key, $value := .from -}}
{{- if not (hasKey $into $key) -}}
{{- $_ := set $into $key $value -}}
{{- else if and (kindIs "map" $value) (kindIs "map" (get $into $key)) -}}
{{- include "kai.fill" (dict "into" (get $into $key) "from" $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
