{{- define "kai.reservationHolds" -}}
{{- $reservation := .Values.global.resourceReservation -}}
- accounts: [{{ include "kai.user" (dict "root" . "account" $reservation.serviceAccount "namespace" $reservation.namespace) | quote }}]
  group: ""
  resources: [pods]
  operations: [UPDATE]
  may:
    annotations: [run.ai/reserve_for_gpu_index]
  rules:
    # A token that is mounted into a pod says which pod that is.
    - expression: >-
        has(request.userInfo.extra) && 'authentication.kubernetes.io/pod-name' in request.userInfo.extra &&
        object.metadata.name in request.userInfo.extra['authentication.kubernetes.io/pod-name']
      message: a reservation pod may tell only the device of its own
    - expression: "!('run.ai/reserve_for_gpu_index' in variables.oldAnnotations)"
      message: the device of a reservation pod is told once
{{- end -}}
