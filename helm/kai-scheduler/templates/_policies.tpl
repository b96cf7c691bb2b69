{{/* "true" where policies are wanted and the API server has them. */}}
{{- define "kai.policiesUsed" -}}
{{- $served := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
{{- if and .Values.admissionPolicies.enabled (or $served (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version)) -}}true{{- end -}}
{{- end -}}

{{/* The user that a component's account is to the API server: root, account, namespace (default: ours). */}}
{{- define "kai.user" -}}
system:serviceaccount:{{ .namespace | default .root.Release.Namespace }}:{{ .account }}
{{- end -}}

{{/* The schedulerName of the pods that a component takes for ours: root, values. */}}
{{- define "kai.schedulerName" -}}
{{- get (.values.args | default dict) "scheduler-name" | default .root.Values.global.schedulerName -}}
{{- end -}}

{{/* By which processes lead, beside schedulers: by account. */}}
{{- define "kai.leases" -}}
insight: kai-insight
kai-operator: kai-operator
node-scale-adjuster: kai-node-scale-adjuster
pod-grouper: 54dff599.kai.scheduler
podgroup-controller: kai-podgroup-controller
queue-controller: kai-queue-controller
{{- end -}}

{{/* CEL: whether no other process than a scheduler leads by the Lease of this name, however schedulers are called. */}}
{{- define "kai.nobodyElsesLease" -}}
!({{ . }} in {{ include "kai.leases" "" | fromYaml | values | sortAlpha | toJson }})
{{- end -}}

{{/* Who may do by hand what else only our accounts may; cluster-admin may everything, this too. */}}
{{- define "kai.mayRepair" -}}
authorizer.group('kai.scheduler').resource('grants').check('repair').allowed()
{{- end -}}

{{/*
CEL: the keys in which two maps differ: new, old (expressions of maps), but (keys that do not count), only (an
expression of k: those that do; where anybody may write other keys, so that no list is made of all of them).
Also lists of an object's fields are maps to CEL, once it is told not to look at their types.
*/}}
{{- define "kai.differing" -}}
{{- $but := "" -}}
{{- with .but }}{{ $but = printf "!(k in %s) && " (toJson .) }}{{ end -}}
{{- with .only }}{{ $but = printf "(%s) && " . }}{{ end -}}
{{ .new }}.filter(k, {{ $but }}!(k in {{ .old }} && {{ .old }}[k] == {{ .new }}[k])) + {{ .old }}.filter(k, {{ $but }}!(k in {{ .new }}))
{{- end -}}

{{/* A part of the object and of the old one, empty where it is not there, and what differs: name, of (a path). Three
variables. */}}
{{- define "kai.part" -}}
{{- $name := .name -}}
{{- $path := .of -}}
- name: {{ $name }}
  expression: "object != null && has(object.{{ $path }}) ? dyn(object.{{ $path }}) : dyn({})"
- name: old{{ title $name }}
  expression: "oldObject != null && has(oldObject.{{ $path }}) ? dyn(oldObject.{{ $path }}) : dyn({})"
- name: changed{{ title $name }}
  expression: {{ include "kai.differing" (dict "new" (printf "variables.%s" $name) "old" (printf "variables.old%s" (title $name)) "but" .but "only" .only) | toJson }}
{{- end -}}

{{/* CEL: whether a key is one of these, or begins as one of those: key, names, prefixes. */}}
{{- define "kai.isOneOf" -}}
{{- $key := .key -}}
{{- $terms := list -}}
{{- with .names }}{{ $terms = append $terms (printf "%s in %s" $key (toJson .)) }}{{ end -}}
{{- range .prefixes }}{{ $terms = append $terms (printf "%s.startsWith(%s)" $key (toJson .)) }}{{ end -}}
{{- $terms | default (list "false") | join " || " -}}
{{- end -}}

{{/*
One policy and its binding: root and policy, which says

  name        of both
  accounts    the users that it holds; without, it holds all
  group       of the API, and resources, operations
  namespace   only there; notNamespace: only elsewhere
  may         what of an object may be changed: labels, labelPrefixes, annotations, annotationPrefixes,
              metadata (other fields of it), fields (beside metadata), status (fields of it). What is not
              named may not; without "may" nothing is said about changes
  variables   more of them
  rules       expressions, each with its message
*/}}
{{- define "kai.policy" -}}
{{- $policy := .policy -}}
{{- $may := $policy.may -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ $policy.name }}
  labels: {{- include "kai.labels" .root | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [{{ $policy.group | quote }}]
        apiVersions: ["*"]
        resources: {{ toJson $policy.resources }}
        operations: {{ toJson $policy.operations }}
  {{- if or $policy.accounts $policy.namespace $policy.notNamespace $policy.conditions }}
  matchConditions:
    {{- with $policy.accounts }}
    - name: account
      expression: {{ printf "request.userInfo.username in %s" (toJson .) | toJson }}
    {{- end }}
    {{- with $policy.namespace }}
    - name: namespace
      expression: {{ printf "request.namespace == %s" (toJson .) | toJson }}
    {{- end }}
    {{- with $policy.notNamespace }}
    - name: namespace
      expression: {{ printf "request.namespace != %s" (toJson .) | toJson }}
    {{- end }}
    {{- range $policy.conditions }}
    - name: {{ .name }}
      expression: {{ toJson .expression }}
    {{- end }}
  {{- end }}
  {{- if or $may $policy.variables }}
  variables:
    {{- if $may }}
    {{- include "kai.part" (dict "name" "labels" "of" "metadata.labels") | nindent 4 }}
    {{- include "kai.part" (dict "name" "annotations" "of" "metadata.annotations") | nindent 4 }}
    {{- include "kai.part" (dict "name" "metadata" "of" "metadata"
      "but" (list "labels" "annotations" "managedFields" "resourceVersion" "generation")) | nindent 4 }}
    {{- include "kai.part" (dict "name" "status" "of" "status") | nindent 4 }}
    - name: changedFields
      expression: {{ include "kai.differing" (dict "new" "dyn(object)" "old" "dyn(oldObject)"
        "but" (list "apiVersion" "kind" "metadata" "status")) | toJson }}
    {{- end }}
    {{- range $policy.variables }}
    - name: {{ .name }}
      expression: {{ toJson .expression }}
    {{- end }}
  {{- end }}
  validations:
    {{- if $may }}
    {{- $parts := list
      (dict "what" "labels" "variable" "changedLabels" "names" $may.labels "prefixes" $may.labelPrefixes)
      (dict "what" "annotations" "variable" "changedAnnotations" "names" $may.annotations "prefixes" $may.annotationPrefixes)
      (dict "what" "metadata" "variable" "changedMetadata" "names" $may.metadata)
      (dict "what" "fields" "variable" "changedFields" "names" $may.fields)
      (dict "what" "status" "variable" "changedStatus" "names" $may.status) }}
    {{- range $parts }}
    {{- $key := include "kai.isOneOf" (dict "key" "k" "names" .names "prefixes" .prefixes) }}
    {{- $foreign := eq $key "false" | ternary (printf "variables.%s" .variable) (printf "variables.%s.filter(k, !(%s))" .variable $key) }}
    - expression: {{ printf "%s.size() == 0" $foreign | toJson }}
      message: {{ printf "this account may not change %s" .what | quote }}
      messageExpression: {{ printf "'this account may not change %s: ' + %s.join(', ')" .what $foreign | toJson }}
      reason: Forbidden
    {{- end }}
    {{- end }}
    {{- range $policy.rules }}
    - expression: {{ toJson .expression }}
      message: {{ .message | quote }}
      reason: Forbidden
    {{- end }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ $policy.name }}
  labels: {{- include "kai.labels" .root | nindent 4 }}
spec:
  policyName: {{ $policy.name }}
  validationActions: [Deny]
{{- end -}}

{{/* All policies of a list, written in YAML: root, policies. */}}
{{- define "kai.policies" -}}
{{- $root := .root -}}
{{- range .policies | fromYamlArray }}
---
{{ include "kai.policy" (dict "root" $root "policy" .) }}
{{- end }}
{{- end -}}
