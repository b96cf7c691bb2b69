{{/* What holds all others: what only our accounts may write. */}}
{{- define "kai.grantHolds" -}}
{{- $reservation := .Values.global.resourceReservation -}}
{{- $binder := include "kai.user" (dict "root" . "account" "binder") -}}
{{- $podGroups := include "kai.user" (dict "root" . "account" "podgroup-controller") -}}
{{- $queues := include "kai.user" (dict "root" . "account" "queue-controller") -}}
{{- $told := append (include "kai.bindingAnnotations" . | fromYamlArray) "kai.scheduler/numa-placement-observed" -}}
{{- $tellers := list $binder -}}
{{- if include "kai.numaExporterMayRun" . -}}
{{- $tellers = append $tellers (include "kai.user" (dict "root" . "account" "numa-placement-exporter")) -}}
{{- end }}
# What binder and exporters may write of pods hold the policies of their accounts.
- name: kai-grants-pods
  group: ""
  resources: [pods, pods/status, pods/binding]
  operations: [CREATE, UPDATE]
  conditions:
    - name: nobody-who-tells-it
      expression: {{ printf "!(request.userInfo.username in %s)" (toJson $tellers) | toJson }}
    - name: tells-a-grant
      expression: {{ printf "%s || %s"
        (include "kai.changes" (dict "part" "metadata.labels" "only" "k == 'runai-gpu-group' || k.startsWith('runai-gpu-group/')"))
        (include "kai.changes" (dict "part" "metadata.annotations" "only" (printf "k in %s" (toJson $told)))) | toJson }}
  rules:
    - expression: {{ include "kai.mayRepair" . | quote }}
      message: "labels runai-gpu-group and annotations {{ join ", " $told }} tell what a pod was granted; only the binder may write them, and an exporter the last one"
# Networks and stand-ins for device plugins write annotations of their own on all pods, and the device on these.
- name: kai-grants-reservations
  group: ""
  resources: [pods, pods/status]
  operations: [CREATE, UPDATE]
  namespace: {{ $reservation.namespace }}
  conditions:
    - name: not-the-binder
      expression: "request.userInfo.username != '{{ $binder }}'"
  variables:
    {{- include "kai.part" (dict "name" "labels" "of" "metadata.labels") | nindent 4 }}
    {{- include "kai.part" (dict "name" "annotations" "of" "metadata.annotations") | nindent 4 }}
    - name: held
      expression: "variables.changedLabels.filter(k, k == 'app' || k == 'runai-gpu-group') + variables.changedAnnotations.filter(k, k == 'kai.scheduler/reserved-by' || k.startsWith('claim.kai.scheduler/'))"
    - name: reserves
      expression: "'app' in variables.labels && variables.labels['app'] == '{{ $reservation.appLabel }}'"
  rules:
    - expression: "(oldObject == null ? !variables.reserves : variables.held.size() == 0) || {{ include "kai.mayRepair" . }}"
      message: "pods with the label app={{ $reservation.appLabel }} hold devices in namespace {{ $reservation.namespace }}; only the binder may make them, and say for whom"
    - expression: "!('run.ai/reserve_for_gpu_index' in variables.changedAnnotations && 'run.ai/reserve_for_gpu_index' in variables.oldAnnotations) || {{ include "kai.mayRepair" . }}"
      message: the device of a reservation pod is told once
- name: kai-grants-status
  group: scheduling.run.ai
  resources: [podgroups/status, queues/status]
  operations: [UPDATE]
  rules:
    - expression: "request.userInfo.username == (request.resource.resource == 'queues' ? '{{ $queues }}' : '{{ $podGroups }}') || {{ include "kai.mayRepair" . }}"
      message: status is what our controllers found; only they may write it
- name: kai-grants-timestamps
  group: scheduling.run.ai
  resources: [podgroups]
  operations: [CREATE, UPDATE]
  conditions:
    - name: not-the-podgroup-controller
      expression: "request.userInfo.username != '{{ $podGroups }}'"
    - name: tells-what-happened
      expression: {{ include "kai.changes" (dict "part" "metadata.annotations" "only" (printf "k in %s" (include "kai.timestamps" . | fromYamlArray | toJson))) | toJson }}
  rules:
    - expression: {{ include "kai.mayRepair" . | quote }}
      message: "the annotations {{ include "kai.timestamps" . | fromYamlArray | join ", " }} tell what happened to a pod group; only podgroup-controller may write them"
{{- end -}}
