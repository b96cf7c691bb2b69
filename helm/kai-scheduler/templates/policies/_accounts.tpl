{{/* Rules and variables that several policies have. */}}
{{/* Only pods that are ours. */}}
{{- define "kai.ourPods" -}}
- expression: "(object != null && has(object.spec) ? object : oldObject).spec.schedulerName == '{{ .Values.global.schedulerName }}'"
  message: "this account may do so only with pods whose schedulerName is {{ .Values.global.schedulerName }}"
{{- end -}}
{{- define "kai.conditions" -}}
- name: conditions
  expression: "has(object.status) && has(object.status.conditions) ? object.status.conditions : []"
- name: oldConditions
  expression: "has(oldObject.status) && has(oldObject.status.conditions) ? oldObject.status.conditions : []"
{{- end -}}
{{/* Only conditions of this type. */}}
{{- define "kai.ourConditions" -}}
- expression: "variables.conditions.all(c, c.type == '{{ . }}' || c in variables.oldConditions) && variables.oldConditions.all(c, c.type == '{{ . }}' || c in variables.conditions)"
  message: this account may write only the condition {{ . }} of a pod
{{- end -}}
{{/* When a group started, got stale, and was evicted from: decisions go by it. */}}
{{- define "kai.timestamps" -}}
[kai.scheduler/last-start-timestamp, kai.scheduler/stale-podgroup-timestamp, kai.scheduler/last-eviction-timestamp]
{{- end -}}
{{/* What a pod is told with its node. */}}
{{- define "kai.bindingAnnotations" -}}
[received-resource-type, kai.scheduler/numa-placement-predicted]
{{- end -}}

{{/* What holds all of our accounts. */}}
{{- define "kai.accountHolds" -}}
{{- $user := dict -}}
{{- range list "scheduler" "pod-grouper" "podgroup-controller" "queue-controller" "binder" "admission" "node-scale-adjuster" "insight" "kai-operator" -}}
{{- $_ := set $user . (include "kai.user" (dict "root" $ "account" .)) -}}
{{- end -}}
{{- $leases := dict -}}
{{- range $account, $lease := include "kai.leases" . | fromYaml -}}
{{- $_ := set $leases (get $user $account) $lease -}}
{{- end -}}
{{- $controllers := dict
  (get $user "kai-operator") "kai-operator"
  (get $user "pod-grouper") "pod-grouper"
  (get $user "podgroup-controller") .Values.global.schedulerName
  (get $user "binder") .Values.global.schedulerName -}}
{{- if not .Values.insight.enabled -}}
{{- $_ := unset $leases (get $user "insight") -}}
{{- end -}}
{{- if .Values.global.clusterAutoscaling -}}
{{- $_ := set $controllers (get $user "node-scale-adjuster") "node-scale-adjuster" -}}
{{- else -}}
{{- $_ := unset $leases (get $user "node-scale-adjuster") -}}
{{- end -}}
# A role cannot say which names may be created.
- accounts: {{ keys $leases | sortAlpha | toJson }}
  group: coordination.k8s.io
  resources: [leases]
  operations: [CREATE]
  namespace: {{ .Release.Namespace }}
  rules:
    - expression: {{ printf "object.metadata.name == %s[request.userInfo.username]" (toJson $leases) | toJson }}
      message: this account may make only the Lease of its own
# Nor how names begin that may be written: each shard has a Lease.
{{- $name := .Values.global.schedulerName }}
- accounts: [{{ get $user "scheduler" | quote }}]
  group: coordination.k8s.io
  resources: [leases]
  operations: [CREATE, UPDATE]
  namespace: {{ .Release.Namespace }}
  rules:
    - expression: {{ printf "%s && (object.metadata.name == '%s' || object.metadata.name.startsWith('%s-'))" (include "kai.nobodyElsesLease" "object.metadata.name") $name $name | toJson }}
      message: this account may write only the Leases of schedulers
- accounts: {{ keys $controllers | sortAlpha | toJson }}
  group: events.k8s.io
  resources: [events]
  operations: [CREATE, UPDATE]
  variables:
    - name: changed
      expression: {{ include "kai.differing" (dict "new" "dyn(object)" "old" "dyn(oldObject)" "but" (list "metadata" "series")) | toJson }}
  rules:
    - expression: {{ printf "object.reportingController == %s[request.userInfo.username]" (toJson $controllers) | toJson }}
      message: this account may tell only what its own process saw
    - expression: "oldObject == null || variables.changed.size() == 0"
      message: this account may count events on, and not change them
{{- end -}}
