{{/* "true" where policies are wanted and the API server has them. */}}
{{- define "kai.policiesUsed" -}}
{{- $served := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
{{- if and .Values.admissionPolicies.enabled (or $served (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version)) -}}true{{- end -}}
{{- end -}}

{{/* The user that a component's account is to the API server: root, account, namespace (default: ours). */}}
{{- define "kai.user" -}}
system:serviceaccount:{{ .namespace | default .root.Release.Namespace }}:{{ .account }}
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

{{/* CEL: the expression that images of these repositories match, of any tag and digest, and no others: a list. */}}
{{- define "kai.ofRepositories" -}}
{{- $quoted := list -}}
{{- range . }}{{ $quoted = append $quoted (regexQuoteMeta .) }}{{ end -}}
{{- printf `^(%s)(:[\w][\w.-]*)?(@[\w.+-]+:[0-9a-fA-F]+)?$` (join "|" $quoted) | toJson -}}
{{- end -}}

{{/* Who may do by hand what else only our accounts may; cluster-admin may everything, this too. */}}
{{- define "kai.mayRepair" -}}
authorizer.group('kai.scheduler').resource('grants').check('repair').allowed()
{{- end -}}

{{/* CEL: a part of the object, or of the old one; empty where it is not there: of ("object" or "oldObject"), part (a path). */}}
{{- define "kai.partOf" -}}
{{ .of }} != null && has({{ .of }}.{{ .part }}) ? dyn({{ .of }}.{{ .part }}) : dyn({})
{{- end -}}

{{/*
CEL: the keys in which two maps differ: new, old (expressions of maps), but (keys that do not count). Also lists of
an object's fields are maps to CEL, once it is told not to look at their types.
*/}}
{{- define "kai.differing" -}}
{{- $but := "" -}}
{{- with .but }}{{ $but = printf "!(k in %s) && " (toJson .) }}{{ end -}}
{{ .new }}.filter(k, {{ $but }}!(k in {{ .old }} && {{ .old }}[k] == {{ .new }}[k])) + {{ .old }}.filter(k, {{ $but }}!(k in {{ .new }}))
{{- end -}}

{{/*
CEL: whether a write changes one of these keys: part (a path), only (an expression of k). No list is made of the keys:
anybody may write thousands of others.
*/}}
{{- define "kai.changes" -}}
{{- $new := printf "(%s)" (include "kai.partOf" (dict "of" "object" "part" .part)) -}}
{{- $old := printf "(%s)" (include "kai.partOf" (dict "of" "oldObject" "part" .part)) -}}
{{ $new }}.exists(k, ({{ .only }}) && !(k in {{ $old }} && {{ $old }}[k] == {{ $new }}[k])) || {{ $old }}.exists(k, ({{ .only }}) && !(k in {{ $new }}))
{{- end -}}

{{/* A part of the object and of the old one, and what differs: name, of (a path), but. Three variables. */}}
{{- define "kai.part" -}}
{{- $name := .name -}}
- name: {{ $name }}
  expression: {{ include "kai.partOf" (dict "of" "object" "part" .of) | toJson }}
- name: old{{ title $name }}
  expression: {{ include "kai.partOf" (dict "of" "oldObject" "part" .of) | toJson }}
- name: changed{{ title $name }}
  expression: {{ include "kai.differing" (dict "new" (printf "variables.%s" $name) "old" (printf "variables.old%s" (title $name)) "but" .but) | toJson }}
{{- end -}}

{{/* CEL: whether a key is one of these, or begins as one of those: key, names, prefixes. */}}
{{- define "kai.isOneOf" -}}
{{- $key := .key -}}
{{- $terms := list -}}
{{- with .names }}{{ $terms = append $terms (printf "%s in %s" $key (toJson .)) }}{{ end -}}
{{- range .prefixes }}{{ $terms = append $terms (printf "%s.startsWith(%s)" $key (toJson .)) }}{{ end -}}
{{- $terms | default (list "false") | join " || " -}}
{{- end -}}

{{/* What rules about changes look at. */}}
{{- define "kai.changed" -}}
{{ include "kai.part" (dict "name" "labels" "of" "metadata.labels") }}
{{ include "kai.part" (dict "name" "annotations" "of" "metadata.annotations") }}
{{ include "kai.part" (dict "name" "metadata" "of" "metadata"
  "but" (list "labels" "annotations" "managedFields" "resourceVersion" "generation")) }}
{{ include "kai.part" (dict "name" "status" "of" "status") }}
- name: changedFields
  expression: {{ include "kai.differing" (dict "new" "dyn(object)" "old" "dyn(oldObject)"
    "but" (list "apiVersion" "kind" "metadata" "status")) | toJson }}
{{- end -}}

{{/* The rules of one hold, as validations: hold, guard (CEL: whether it is about this request; "" where it always is). */}}
{{- define "kai.validations" -}}
{{- $unless := empty .guard | ternary "" (printf "!(%s) || " .guard) -}}
{{- $unlessTold := empty .guard | ternary "" (printf "!(%s) ? '' : " .guard) -}}
{{- with .hold.may }}
{{- $parts := list
  (dict "what" "labels" "variable" "changedLabels" "names" .labels "prefixes" .labelPrefixes)
  (dict "what" "annotations" "variable" "changedAnnotations" "names" .annotations "prefixes" .annotationPrefixes)
  (dict "what" "metadata" "variable" "changedMetadata" "names" .metadata)
  (dict "what" "fields" "variable" "changedFields" "names" .fields)
  (dict "what" "status" "variable" "changedStatus" "names" .status) }}
{{- range $parts }}
{{- $key := include "kai.isOneOf" (dict "key" "k" "names" .names "prefixes" .prefixes) }}
{{- $foreign := eq $key "false" | ternary (printf "variables.%s" .variable) (printf "variables.%s.filter(k, !(%s))" .variable $key) }}
- expression: {{ printf "%s%s.size() == 0" $unless $foreign | toJson }}
  message: {{ printf "this account may not change %s" .what | quote }}
  messageExpression: {{ printf "%s'this account may not change %s: ' + %s.join(', ')" $unlessTold .what $foreign | toJson }}
  reason: Forbidden
{{- end }}
{{- end }}
{{- range .hold.rules }}
- expression: {{ empty $unless | ternary .expression (printf "%s(%s)" $unless .expression) | toJson }}
  message: {{ .message | quote }}
  reason: Forbidden
{{- end }}
{{- end -}}

{{/*
One policy and its binding: root, name, and holds, each of which says

  accounts    the users that it holds; without, it holds all
  group       of the API, and resources, operations: the same in all holds of a policy
  namespace   only there; notNamespace: only elsewhere
  conditions  more that must be so
  may         what of an object may be changed: labels, labelPrefixes, annotations, annotationPrefixes,
              metadata (other fields of it), fields (beside metadata), status (fields of it). What is not
              named may not; without "may" nothing is said about changes
  variables   more of them; of one name, the same in all holds of a policy
  rules       expressions, each with its message

An API server reads an object and its former state anew for each policy that names its resource, whoever writes. So
what holds several accounts at one kind of write is one policy, and of a namespace it is told by selector.
*/}}
{{- define "kai.policy" -}}
{{- $first := first .holds -}}
{{- $accounts := list -}}
{{- $namespaces := list -}}
{{- $conditions := list -}}
{{- $may := false -}}
{{- $variables := dict -}}
{{- $names := list -}}
{{- range .holds -}}
{{- $accounts = concat $accounts (.accounts | default list) | uniq -}}
{{- $namespaces = append $namespaces (.namespace | default "") | uniq -}}
{{- $conditions = concat $conditions (.conditions | default list) -}}
{{- $may = or $may .may -}}
{{- range .variables -}}
{{- if ne (get $variables .name | default .expression) .expression -}}
{{- fail (printf "variable %s means two things" .name) -}}
{{- end -}}
{{- if not (hasKey $variables .name) }}{{ $names = append $names .name }}{{ end -}}
{{- $_ := set $variables .name .expression -}}
{{- end -}}
{{- end -}}
{{- $only := eq (len $namespaces) 1 | ternary (first $namespaces) "" -}}
{{- with $accounts -}}
{{- $conditions = prepend $conditions (dict "name" "account" "expression" (printf "request.userInfo.username in %s" (toJson .))) -}}
{{- end -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ .name }}
  labels: {{- include "kai.labels" .root | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    {{- with $only }}
    namespaceSelector:
      matchLabels:
        kubernetes.io/metadata.name: {{ . }}
    {{- end }}
    resourceRules:
      - apiGroups: [{{ $first.group | quote }}]
        apiVersions: ["*"]
        resources: {{ toJson $first.resources }}
        operations: {{ toJson $first.operations }}
  {{- with $conditions }}
  matchConditions:
    {{- range . }}
    - name: {{ .name }}
      expression: {{ toJson .expression }}
    {{- end }}
  {{- end }}
  {{- if or $may $names }}
  variables:
    {{- if $may }}
    {{- include "kai.changed" . | nindent 4 }}
    {{- end }}
    {{- range $names }}
    - name: {{ . }}
      expression: {{ get $variables . | toJson }}
    {{- end }}
  {{- end }}
  validations:
    {{- $several := gt (len .holds) 1 }}
    {{- range .holds }}
    {{- $guards := list }}
    {{- if $several }}{{ $guards = append $guards (printf "request.userInfo.username in %s" (toJson .accounts)) }}{{ end }}
    {{- if and .namespace (not $only) }}{{ $guards = append $guards (printf "request.namespace == '%s'" .namespace) }}{{ end }}
    {{- with .notNamespace }}{{ $guards = append $guards (printf "request.namespace != '%s'" .) }}{{ end }}
    {{- include "kai.validations" (dict "hold" . "guard" (join " && " $guards)) | trim | nindent 4 }}
    {{- end }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels: {{- include "kai.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end -}}

{{/* The policies that make of holds on accounts, written in YAML, one for each kind of write: root, holds (lists). */}}
{{- define "kai.accountPolicies" -}}
{{- $root := .root -}}
{{- $writes := dict -}}
{{- range .holds }}
{{- range fromYamlArray . }}
{{- $write := printf "%s-%s" (join "-" .resources | replace "/" "-") (join "-" .operations | lower) }}
{{- $_ := set $writes $write (append (get $writes $write | default list) .) }}
{{- end }}
{{- end }}
{{- range $write, $holds := $writes }}
---
{{ include "kai.policy" (dict "root" $root "name" (printf "kai-accounts-%s" $write) "holds" $holds) }}
{{- end }}
{{- end -}}
