{{- define "kai.numaPlacementExporterHolds" -}}
- accounts: [{{ include "kai.user" (dict "root" . "account" "numa-placement-exporter") | quote }}]
  group: ""
  resources: [pods]
  operations: [UPDATE]
  may:
    annotations: [kai.scheduler/numa-placement-observed]
  rules:
    # A token that is mounted into a pod says on which node that is.
    - expression: >-
        has(request.userInfo.extra) && 'authentication.kubernetes.io/node-name' in request.userInfo.extra &&
        has(object.spec.nodeName) && object.spec.nodeName in request.userInfo.extra['authentication.kubernetes.io/node-name']
      message: an exporter may tell only of the pods of its own node
{{- end -}}
