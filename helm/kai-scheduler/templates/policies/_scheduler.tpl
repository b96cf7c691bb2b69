{{- define "kai.schedulerHolds" -}}
- accounts: [{{ include "kai.user" (dict "root" . "account" "scheduler") | quote }}]
  group: ""
  resources: [pods]
  operations: [DELETE]
  rules:
    {{- include "kai.ourPods" (dict "root" . "values" .Values.scheduler) | nindent 4 }}
- accounts: [{{ include "kai.user" (dict "root" . "account" "scheduler") | quote }}]
  group: ""
  resources: [pods/status]
  operations: [UPDATE]
  may:
    status: [conditions]
  variables:
    {{- include "kai.conditions" . | nindent 4 }}
  rules:
    {{- include "kai.ourPods" (dict "root" . "values" .Values.scheduler) | nindent 4 }}
    {{- include "kai.ourConditions" "DisruptionTarget" | nindent 4 }}
{{- end -}}
