{{- define "kai.binderHolds" -}}
{{- $user := include "kai.user" (dict "root" . "account" "binder") | quote -}}
{{- $reservation := .Values.global.resourceReservation -}}
{{- $account := $reservation.serviceAccount -}}
{{- $images := include "kai.reservationImages" . | fromJsonArray -}}
# --- pods of users -----------------------------------------------------------------------------
- accounts: [{{ $user }}]
  group: ""
  resources: [pods]
  operations: [UPDATE]
  notNamespace: {{ $reservation.namespace }}
  may:
    labels: [runai-gpu-group, {{ .Values.global.nodePoolLabelKey | quote }}]
    labelPrefixes: [runai-gpu-group/]
  rules:
    {{- include "kai.ourPods" . | nindent 4 }}
- accounts: [{{ $user }}]
  group: ""
  resources: [pods/status]
  operations: [UPDATE]
  may:
    status: [conditions, extendedResourceClaimStatus]
  variables:
    {{- include "kai.conditions" . | nindent 4 }}
  rules:
    {{- include "kai.ourPods" . | nindent 4 }}
    {{- include "kai.ourConditions" "PodBound" | nindent 4 }}
- accounts: [{{ $user }}]
  group: ""
  resources: [pods]
  operations: [DELETE]
  notNamespace: {{ $reservation.namespace }}
  rules:
    {{- include "kai.ourPods" . | nindent 4 }}
    - expression: "has(oldObject.metadata.labels) && oldObject.metadata.labels.exists(k, k == 'runai-gpu-group' || k.startsWith('runai-gpu-group/'))"
      message: this account may delete only pods that share a GPU
- accounts: [{{ $user }}]
  group: ""
  resources: [pods/binding]
  operations: [CREATE]
  rules:
    - expression: "!has(object.metadata.annotations) || object.metadata.annotations.all(k, k in {{ append (include "kai.bindingAnnotations" . | fromYamlArray) "pod-group-name" | toJson | replace "\"" "'" }})"
      message: a Binding of this account may carry only the annotations that tell the pod group and what was granted
    # Kubernetes itself adds the labels of the node's topology.
    - expression: "!has(object.metadata.labels) || object.metadata.labels.all(k, k.startsWith('topology.kubernetes.io/'))"
      message: a Binding of this account may carry no labels but those of the topology
# --- reservation pods --------------------------------------------------------------------------
- accounts: [{{ $user }}]
  group: ""
  resources: [pods]
  operations: [UPDATE]
  namespace: {{ $reservation.namespace }}
  may:
    annotationPrefixes: [claim.kai.scheduler/]
- accounts: [{{ $user }}]
  group: ""
  resources: [pods]
  operations: [CREATE]
  variables:
    - name: spec
      expression: object.spec
    - name: containers
      expression: "variables.spec.containers + (has(variables.spec.initContainers) ? variables.spec.initContainers : [])"
  rules:
    - expression: "request.namespace == '{{ $reservation.namespace }}'"
      message: this account may make pods only in namespace {{ $reservation.namespace }}
    - expression: "has(object.metadata.labels) && 'app' in object.metadata.labels && object.metadata.labels['app'] == '{{ $reservation.appLabel }}'"
      message: "this account may make only pods with the label app={{ $reservation.appLabel }}"
    - expression: "variables.spec.serviceAccountName == '{{ $account }}'"
      message: a reservation pod runs as service account {{ $account }}
    # Where devices are only played, it sleeps, and whoever plays them tells which it got.
    - expression: {{ printf "variables.containers.all(c, c.image.matches(%s) || c.image == 'ubuntu')" (include "kai.ofRepositories" $images) | toJson }}
      message: "a reservation pod may only have the images {{ join ", " $images }} (value admissionPolicies.reservationImages)"
    - expression: "variables.containers.all(c, !has(c.command) && (c.image == 'ubuntu' ? has(c.args) && c.args == ['sleep', 'infinity'] : !has(c.args)))"
      message: a reservation pod runs what its image is for
    - expression: "!(has(variables.spec.hostNetwork) && variables.spec.hostNetwork) && !(has(variables.spec.hostPID) && variables.spec.hostPID) && !(has(variables.spec.hostIPC) && variables.spec.hostIPC)"
      message: a reservation pod may not use the network, processes or memory of its host
    - expression: >-
        variables.containers.all(c, !has(c.securityContext) || !(has(c.securityContext.privileged) && c.securityContext.privileged)
        && !(has(c.securityContext.procMount) && c.securityContext.procMount != 'Default')
        && !(has(c.securityContext.capabilities) && has(c.securityContext.capabilities.add)
        && c.securityContext.capabilities.add.size() > 0))
      message: a reservation pod may not be privileged, nor have capabilities added
    - expression: >-
        !has(variables.spec.volumes) || variables.spec.volumes.all(v, has(v.emptyDir) || has(v.downwardAPI) ||
        has(v.projected) && (!has(v.projected.sources) || v.projected.sources.all(s, !has(s.secret))))
      message: a reservation pod may have no volumes of the host, of claims, or of secrets
    - expression: >-
        variables.containers.all(c, !has(c.envFrom) && (!has(c.env) || c.env.all(e, !has(e.valueFrom) ||
        !has(e.valueFrom.secretKeyRef))))
      message: a reservation pod may read no secrets
# --- what pods need ----------------------------------------------------------------------------
- accounts: [{{ $user }}]
  group: ""
  resources: [configmaps]
  operations: [CREATE, UPDATE, DELETE]
  variables:
    - name: belonging
      expression: "oldObject != null ? oldObject : object"
    - name: data
      expression: "object != null && has(object.data) ? dyn(object.data) : dyn({})"
    - name: oldData
      expression: "oldObject != null && has(oldObject.data) ? dyn(oldObject.data) : dyn({})"
    - name: changed
      expression: {{ include "kai.differing" (dict "new" "variables.data" "old" "variables.oldData") | toJson }}
    - name: changedMetadata
      expression: {{ include "kai.differing" (dict "new" "dyn(object.metadata)" "old" "dyn(oldObject.metadata)" "but" (list "managedFields" "resourceVersion")) | toJson }}
  rules:
    - expression: >-
        has(variables.belonging.metadata.ownerReferences) && variables.belonging.metadata.ownerReferences.size() == 1 &&
        variables.belonging.metadata.ownerReferences[0].apiVersion == 'v1' && variables.belonging.metadata.ownerReferences[0].kind == 'Pod'
      message: this account may write only ConfigMaps that belong to one pod
    - expression: {{ printf "object == null || variables.changed.all(k, k in %s)" (list "NVIDIA_VISIBLE_DEVICES" "GPU_PORTION" "RUNAI_NUM_OF_GPUS" "CUDA_DEVICE_MEMORY_LIMIT" | toJson) | toJson }}
      message: this account may write into ConfigMaps only what a container learns about its part of a GPU
    - expression: "object == null || oldObject == null || variables.changedMetadata.size() == 0"
      message: this account may not change the metadata of ConfigMaps
- accounts: [{{ $user }}]
  group: ""
  resources: [persistentvolumes]
  operations: [UPDATE]
  may:
    annotations: [pv.kubernetes.io/bound-by-controller]
    fields: [spec]
  variables:
    - name: changed
      expression: {{ include "kai.differing" (dict "new" "dyn(object.spec)" "old" "dyn(oldObject.spec)") | toJson }}
  rules:
    - expression: "variables.changed.all(k, k == 'claimRef')"
      message: this account may set only the claim of a volume
    - expression: >-
        !has(oldObject.spec.claimRef) || has(object.spec.claimRef) &&
        object.spec.claimRef.namespace == oldObject.spec.claimRef.namespace &&
        object.spec.claimRef.name == oldObject.spec.claimRef.name
      message: this account may not take a volume from its claim
- accounts: [{{ $user }}]
  group: ""
  resources: [persistentvolumeclaims]
  operations: [UPDATE]
  may:
    annotations: [volume.kubernetes.io/selected-node]
- accounts: [{{ $user }}]
  group: resource.k8s.io
  resources: [resourceclaims]
  operations: [CREATE, UPDATE, DELETE]
  variables:
    - name: claim
      expression: "oldObject != null ? oldObject : object"
    - name: changedMetadata
      expression: {{ include "kai.differing" (dict "new" "dyn(object.metadata)" "old" "dyn(oldObject.metadata)" "but" (list "managedFields" "resourceVersion" "generation")) | toJson }}
    # What is allocated is kept until its last user has ended.
    - name: protects
      expression: >-
        object != null && oldObject != null && variables.changedMetadata == ['finalizers'] && has(object.metadata.finalizers) &&
        object.metadata.finalizers == (has(oldObject.metadata.finalizers) ? oldObject.metadata.finalizers : []) + ['resource.kubernetes.io/delete-protection']
  rules:
    - expression: >-
        variables.protects || has(variables.claim.metadata.annotations) && 'resource.kubernetes.io/extended-resource-claim' in variables.claim.metadata.annotations &&
        has(variables.claim.metadata.ownerReferences) && variables.claim.metadata.ownerReferences.size() == 1 &&
        variables.claim.metadata.ownerReferences[0].apiVersion == 'v1' && variables.claim.metadata.ownerReferences[0].kind == 'Pod'
      message: this account may write only claims for the extended resources of a pod, and protect others
    - expression: "object == null || oldObject == null || object.spec == oldObject.spec"
      message: this account may not change what a claim asks for
- accounts: [{{ $user }}]
  group: resource.k8s.io
  resources: [resourceclaims/status]
  operations: [UPDATE]
  may:
    status: [allocation, reservedFor]
{{- end -}}
