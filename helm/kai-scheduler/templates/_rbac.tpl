{{/* A ClusterRole, given to a component's ServiceAccount: root, role, account, rules. */}}
{{- define "kai.clusterRole" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .role }}
  labels: {{- include "kai.labels" .root | nindent 4 }}
rules: {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .role }}
  labels: {{- include "kai.labels" .root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ .role }}}
subjects:
  - {kind: ServiceAccount, name: {{ .account }}, namespace: {{ .root.Release.Namespace }}}
{{- end -}}

{{/* A Role in one namespace, given to a component's ServiceAccount: root, role, namespace, account, rules. */}}
{{- define "kai.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .role }}
  namespace: {{ .namespace }}
  labels: {{- include "kai.labels" .root | nindent 4 }}
rules: {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .role }}
  namespace: {{ .namespace }}
  labels: {{- include "kai.labels" .root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ .role }}}
subjects:
  - {kind: ServiceAccount, name: {{ .account }}, namespace: {{ .accountNamespace | default .root.Release.Namespace }}}
{{- end -}}

{{/* Leading by the Lease of this name, and finding who leads. Creating cannot be granted by name. */}}
{{- define "kai.leaderRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ . }}]
  verbs: [update]
{{- end -}}

{{/* Leading by a Lease for each shard; the policy kai-accounts-leases-create-update says which names those have. */}}
{{- define "kai.schedulerLeaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, update]
{{- end -}}

{{/* Finding who leads. */}}
{{- define "kai.followerRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [list, watch]
{{- end -}}

{{/* Telling users what happened. */}}
{{- define "kai.eventRules" -}}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* Where the pods are that stand for those who wait for parts of GPUs. */}}
{{- define "kai.scalingNamespace" -}}
{{- .Values.nodescaleadjuster.scalingPodNamespace -}}
{{- end -}}

{{/* "true" unless there never is one: where nobody says so, a shard may have the plugin numa at any time. */}}
{{- define "kai.numaExporterMayRun" -}}
{{- if ne (toString (.Values.numaPlacementExporter | default dict).enabled) "false" -}}true{{- end -}}
{{- end -}}

{{/*
Where the images are that a pod may have, as JSON: the one of ours, and those that values name. Tags and digests are
left out. Policies are in force as soon as they are applied, and processes of the release before, which make pods of
their own tag, work until others take their place: for ever, if the image of those cannot be pulled.
*/}}
{{- define "kai.repositories" -}}
{{- $found := list -}}
{{- range prepend .root.Values.admissionPolicies.reservationImages .image -}}
{{- $found = append $found (regexReplaceAll ":[^/]*$" (regexReplaceAll "@.*$" . "") "") -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{/* The repositories of reservation pods' images, as JSON. */}}
{{- define "kai.reservationImages" -}}
{{- $chosen := get (.Values.binder.args | default dict) "resource-reservation-pod-image" -}}
{{- $image := $chosen | default (include "kai.image" (dict "root" . "image" .Values.binder.resourceReservationImage)) -}}
{{- include "kai.repositories" (dict "root" . "image" $image) -}}
{{- end -}}

{{/* The repositories of scaling pods' images, as JSON. */}}
{{- define "kai.scalingImages" -}}
{{- $chosen := get (.Values.nodescaleadjuster.args | default dict) "scaling-pod-image" -}}
{{- $image := $chosen | default (include "kai.image" (dict "root" . "image" .Values.nodescaleadjuster.scalingPodImage)) -}}
{{- include "kai.repositories" (dict "root" . "image" $image) -}}
{{- end -}}

{{/* What the roles and policies of this chart were made for, beyond what every installation has. */}}
{{- define "kai.grants" -}}
{{- $v := .Values -}}
{{- $priorities := $v.podgrouper.defaultPrioritiesConfigMapName -}}
admission: {{ $v.admission.enabled }}
binder: {{ $v.binder.enabled }}
podGrouper: {{ $v.podgrouper.enabled }}
podGroupController: {{ $v.podgroupcontroller.enabled }}
queueController: {{ $v.queuecontroller.enabled }}
scheduler: {{ $v.scheduler.enabled }}
nodeScaleAdjuster: {{ not (not $v.global.clusterAutoscaling) }}
numaPlacementExporter: {{ eq (include "kai.numaExporterMayRun" .) "true" }}
insight: {{ not (not $v.insight.enabled) }}
insightReviews: {{ and (not (not $v.insight.enabled)) (not (not $v.insight.ports.httpPort)) }}
prometheus: {{ eq (include "kai.prometheusMayRun" .) "true" }}
evictions: {{ eq (include "kai.flagIsOn" (dict "values" $v.scheduler "flag" "eviction-api")) "true" }}
evictionConditions: {{ eq (include "kai.flagIsOn" (dict "values" $v.scheduler "flag" "update-pod-eviction-condition")) "true" }}
configMaps: {{ ne (include "kai.flagIsOff" (dict "values" $v.scheduler "flag" "wait-for-config-maps")) "true" }}
namespaces: {{ eq (include "kai.groupsByNamespace" .) "true" }}
priorities: {{ ternary (printf "%s/%s" $v.podgrouper.defaultPrioritiesConfigMapNamespace $priorities) "" (not (not $priorities)) | quote }}
{{- if include "kai.policiesUsed" . }}
schedulerName: {{ $v.global.schedulerName | quote }}
reservationLabel: {{ $v.global.resourceReservation.appLabel | quote }}
reservationImages: {{ include "kai.reservationImages" . }}
scalingImages: {{ include "kai.scalingImages" . }}
{{- end }}
reservationNamespace: {{ $v.global.resourceReservation.namespace | quote }}
reservationAccount: {{ $v.global.resourceReservation.serviceAccount | quote }}
scalingNamespace: {{ include "kai.scalingNamespace" . | quote }}
{{- end -}}

{{/* "true" unless you have one: Config may ask for one of ours at any time, whose account is there from then on. */}}
{{- define "kai.prometheusMayRun" -}}
{{- if not .Values.prometheus.externalPrometheusUrl -}}true{{- end -}}
{{- end -}}

{{/* "true" if the pod-grouper looks at the labels of namespaces. */}}
{{- define "kai.groupsByNamespace" -}}
{{- if or .Values.global.namespaceLabelSelector (get (.Values.podgrouper.args | default dict) "namespace-label-selector") -}}true{{- end -}}
{{- end -}}
