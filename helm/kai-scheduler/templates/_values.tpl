{{/* Written by `make derived`. */}}
{{- define "kai.defaults" -}}
openshift: false
global:
  registry: registry/local
  tag: ''
  fipsMode: 'off'
  imagePullPolicy: IfNotPresent
  imagePullSecrets: []
  replicaCount: null
  leaderElection: false
  schedulerName: kai-scheduler
  gpuSharing: false
  gpuSharingMode: ''
  clusterAutoscaling: false
  blockNvidiaVisibleDevices: false
  nodePoolLabelKey: ''
  podLabelSelector: {}
  namespaceLabelSelector: {}
  resourceReservation:
    namespace: kai-resource-reservation
    serviceAccount: kai-resource-reservation
    appLabel: kai-resource-reservation
    runtimeClassName: ''
    namespaceLabels: {}
    createNamespace: true
    createServiceAccount: true
  tls: {enabled: true}
  securityContext: {}
  podSecurityContext: {}
  nodeSelector: {}
  affinity: {}
  tolerations: []
  daemonsetsTolerations: []
  requireDefaultPodAntiAffinityTerm: false
  priorityClassName: ''
  jsonLog: false
  vpa:
    enabled: false
    updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1}
    resourcePolicy:
      containerPolicies:
      - containerName: '*'
        minAllowed: {cpu: 50m, memory: 500Mi}
        maxAllowed: {cpu: 2, memory: 5Gi}
operator:
  enabled: true
  image: {name: kai-scheduler, tag: '', pullPolicy: ''}
  replicaCount: 1
  metricsBindAddress: :8080
  probeBindAddress: :8081
  qps: 50
  burst: 300
  logLevel: ''
  args: {}
  affinity: {}
  resources:
    requests: {cpu: 50m, memory: 128Mi}
    limits: {memory: 384Mi}
admission:
  enabled: true
  replicas: null
  image: {name: kai-scheduler, tag: '', pullPolicy: ''}
  ports: {webhookPort: 9443, metricsPort: 8080, probePort: 8081}
  gpuFractionRuntimeClassName: nvidia
  queueLabelSelector: false
  args: {}
  affinity: {}
  podDisruptionBudget: {enabled: true, maxUnavailable: 1}
  k8sClientConfig: {}
  vpa: {}
  resources: {}
podgrouper:
  enabled: true
  replicas: null
  image: {name: kai-scheduler, tag: '', pullPolicy: ''}
  queueLabelKey: kai.scheduler/queue
  genericKartaFallback: true
  knativeGangSchedule: true
  defaultPrioritiesConfigMapName: ''
  defaultPrioritiesConfigMapNamespace: ''
  args: {}
  affinity: {}
  podDisruptionBudget: {enabled: true, maxUnavailable: 1}
  k8sClientConfig: {}
  vpa: {}
  resources: {}
podgroupcontroller:
  enabled: true
  replicas: null
  image: {name: kai-scheduler, tag: '', pullPolicy: ''}
  webhook: {enabled: true}
  args: {}
  affinity: {}
  podDisruptionBudget: {enabled: true, maxUnavailable: 1}
  k8sClientConfig: {}
  vpa: {}
  resources: {}
queuecontroller:
  enabled: true
  replicas: null
  image: {name: kai-scheduler, tag: '', pullPolicy: ''}
  webhook: {enabled: true, refuseDeletion: false}
  metricsNamespace: kai
  queueLabelToMetricLabel: ''
  queueLabelToDefaultMetricValue: ''
  args: {}
  affinity: {}
  podDisruptionBudget: {enabled: true, maxUnavailable: 1}
  k8sClientConfig: {}
  vpa: {}
  resources: {}
defaultShard: {enabled: true}
scheduler:
  enabled: true
  replicas: null
  image: {name: kai-scheduler, tag: '', pullPolicy: ''}
  ports: {metricsPort: 8080, grpcPort: 9090}
  placementStrategy: binpack
  plugins: {}
  actions: {}
  queueDepthPerAction: {}
  usageDBConfig: {}
  scenarioSearchBudgets: {}
  minRuntime: {}
  kValue: null
  args: {}
  affinity: {}
  podDisruptionBudget: {enabled: true, maxUnavailable: 1}
  k8sClientConfig: {}
  vpa: {}
  resources: {}
binder:
  enabled: true
  replicas: null
  image: {name: kai-scheduler, tag: '', pullPolicy: ''}
  ports: {metricsPort: 8080}
  resourceReservationImage: {name: kai-scheduler, tag: '', pullPolicy: ''}
  resourceReservationPodResources: {}
  cdiEnabled: null
  plugins: {}
  args: {}
  affinity: {}
  podDisruptionBudget: {enabled: true, maxUnavailable: 1}
  k8sClientConfig: {}
  vpa: {}
  resources: {}
numaPlacementExporter:
  enabled: null
  image: {name: kai-scheduler, tag: '', pullPolicy: ''}
  nodeSelector: {}
  tolerations: []
  affinity: {}
  pollInterval: ''
  driftResyncInterval: ''
  podResourcesHostPath: ''
  podResourcesSocket: ''
  sysfsHostPath: ''
  args: {}
  resources: {}
prometheus: {enabled: false, externalPrometheusUrl: ''}
nodescaleadjuster:
  replicas: null
  image: {name: kai-scheduler, tag: '', pullPolicy: ''}
  scalingPodImage: {name: kai-scheduler, tag: '', pullPolicy: ''}
  scalingPodNamespace: kai-scale-adjust
  labels: {}
  gpuMemoryToFractionRatio: 0.1
  args: {}
  affinity: {}
  podDisruptionBudget: {enabled: true, maxUnavailable: 1}
  resources: {}
insight:
  enabled: false
  replicas: null
  image: {name: kai-scheduler, tag: '', pullPolicy: ''}
  retention: 30d
  persistence: {enabled: true, size: 10Gi, storageClassName: ''}
  externalSecret: {name: '', key: url, port: 5432}
  ports: {grpcPort: 9091, httpPort: 9092}
  ingress:
    enabled: false
    className: ''
    host: ''
    annotations: {}
    tls: []
  args: {}
  affinity: {}
  podDisruptionBudget: {enabled: true, maxUnavailable: 1}
  resources: {}
redis:
  enabled: true
  image: {name: kai-scheduler, tag: '', pullPolicy: ''}
  port: 6379
  maxMemory: ''
  externalUrl: ''
  externalCa: ''
  externalSecret: {name: '', key: url, caKey: '', port: 6379}
  persistence: {enabled: null, size: 1Gi, storageClassName: '', fsync: everysec}
  resources: {}
networkPolicy:
  enabled: true
  metricsFrom: []
  grpcFrom: []
  pageFrom: []
  egress:
    enabled: true
    apiServerPorts: []
    dnsPorts: [53, 5353]
    more: []
certificates:
  validDays: 365
  renewAfterDays: 243
  authorityValidDays: 3650
  existing: {enabled: false, caBundle: ''}
admissionPolicies:
  enabled: true
  reservationImages: []
defaultPriorityClasses: {enabled: true}
dashboards:
  enabled: false
  namespace: ''
  labels: {grafana_dashboard: '1'}
  annotations: {}
defaultQueue:
  createDefaultQueue: true
  parentName: default-parent-queue
  childName: default-queue
  parentResources:
    cpu: {quota: 0, limit: -1, overQuotaWeight: 1}
    gpu: {quota: 0, limit: -1, overQuotaWeight: 1}
    memory: {quota: 0, limit: -1, overQuotaWeight: 1}
  childResources:
    cpu: {quota: 0, limit: -1, overQuotaWeight: 1}
    gpu: {quota: 0, limit: -1, overQuotaWeight: 1}
    memory: {quota: 0, limit: -1, overQuotaWeight: 1}
crdupgrader:
  enabled: true
  image: {registry: '', name: kai-scheduler, tag: '', pullPolicy: ''}
  resources: {}
kaiConfig: {render: false}
kaiConfigDeployer:
  enabled: true
  image: {registry: '', name: kai-scheduler, tag: '', pullPolicy: ''}
  resources: {}
topologyMigration:
  enabled: true
  image: {registry: '', name: kai-scheduler, tag: '', pullPolicy: ''}
  resources: {}
postCleanup:
  enabled: true
  serviceAccountName: post-delete-cleanup
  image: {registry: '', name: kai-scheduler, tag: '', pullPolicy: ''}
  resources: {}
{{- end }}
