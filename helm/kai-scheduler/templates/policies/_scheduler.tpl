{{- define "kai.schedulerHolds" -}}
- accounts: [{{ include "kai.user" (dict "root" . "account" "scheduler") | quote }}]
  group: ""
  resources: [pods]
  operations: [DELETE]
  rules:
    {{- include "kai.ourPods" . | nindent 4 }}
- accounts: [{{ include "kai.user" (dict "root" . "account" "scheduler") | quote }}]
  group: ""
  resources: [pods/status]
  operations: [UPDATE]
  may:
    status: [conditions]
  variables:
    {{- include "kai.conditions" . | nindent 4 }}
  rules:
    {{- include "kai.ourPods" . | nindent 4 }}
    {{- include "kai.ourConditions" "DisruptionTarget" | nindent 4 }}
- accounts: [{{ include "kai.user" (dict "root" . "account" "scheduler") | quote }}]
  group: resource.k8s.io
  resources: [resourceclaims/status]
  operations: [UPDATE]
  may:
    status: [allocation, reservedFor]
  variables:
    - name: users
      expression: "has(object.status) && has(object.status.reservedFor) ? object.status.reservedFor : []"
    - name: oldUsers
      expression: "has(oldObject.status) && has(oldObject.status.reservedFor) ? oldObject.status.reservedFor : []"
  rules:
    - expression: "variables.users.size() < variables.oldUsers.size() && variables.users.all(u, u in variables.oldUsers)"
      message: this account may only take users off a claim
    - expression: >-
        has(object.status) && has(object.status.allocation)
        ? has(oldObject.status.allocation) && object.status.allocation == oldObject.status.allocation
        : variables.users.size() == 0
      message: this account may take devices only from a claim without users
{{- end -}}
