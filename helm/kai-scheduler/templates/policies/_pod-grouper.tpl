{{- define "kai.podGrouperHolds" -}}
- accounts: [{{ include "kai.user" (dict "root" . "account" "pod-grouper") | quote }}]
  group: ""
  resources: [pods]
  operations: [UPDATE]
  may:
    labels: [kai.scheduler/subgroup-name]
    annotations: [pod-group-name]
  rules:
    {{- include "kai.ourPods" . | nindent 4 }}
- accounts: [{{ include "kai.user" (dict "root" . "account" "pod-grouper") | quote }}]
  group: scheduling.run.ai
  resources: [podgroups]
  operations: [CREATE, UPDATE]
  rules:
    - expression: "!has(object.metadata.finalizers) || oldObject != null && has(oldObject.metadata.finalizers) && object.metadata.finalizers == oldObject.metadata.finalizers"
      message: this account may not add finalizers
    - expression: "oldObject == null || !has(oldObject.spec.queue) || oldObject.spec.queue == '' || has(object.spec.queue) && object.spec.queue == oldObject.spec.queue"
      message: this account may not change the queue of a pod group that has one
{{- end -}}
