{{- define "kai.podGroupControllerHolds" -}}
- accounts: [{{ include "kai.user" (dict "root" . "account" "podgroup-controller") | quote }}]
  group: ""
  resources: [pods/status]
  operations: [UPDATE]
  may:
    status: [conditions]
  rules:
    {{- include "kai.ourPods" . | nindent 4 }}
    {{- include "kai.ourConditions" "PodScheduled" | nindent 4 }}
    - expression: variables.conditions.all(c, c.type != 'PodScheduled' || c.status == 'False' || c in variables.oldConditions)
      message: this account may say only that a pod is not scheduled
  variables:
    {{- include "kai.conditions" . | nindent 4 }}
- accounts: [{{ include "kai.user" (dict "root" . "account" "podgroup-controller") | quote }}]
  group: scheduling.run.ai
  resources: [podgroups]
  operations: [UPDATE]
  may:
    annotations: {{ include "kai.timestamps" . }}
{{- end -}}
