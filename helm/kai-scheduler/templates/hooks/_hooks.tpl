{{/* Metadata of an object of a hook: root, name, when, weight; in a namespace (default: that of the release), unless cluster. */}}
{{- define "kai.hookMetadata" -}}
metadata:
  name: {{ .name }}
  {{- if not .cluster }}
  namespace: {{ .namespace | default .root.Release.Namespace }}
  {{- end }}
  labels:
    app: {{ .name }}
    {{- include "kai.labels" .root | nindent 4 }}
  annotations:
    helm.sh/hook: {{ .when }}
    helm.sh/hook-weight: {{ .weight | quote }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
    {{- if eq .when "post-delete" }}
    argocd.argoproj.io/hook: PostDelete
    argocd.argoproj.io/hook-delete-policy: BeforeHookCreation,HookSucceeded
    {{- end }}
{{- end -}}

{{/*
The account of a hook and what it may do: root, name, when, account (default: name), cluster (rules of a ClusterRole),
rules (of a Role) in a namespace (default: that of the release), weight (default: -1).
*/}}
{{- define "kai.hookAccount" -}}
{{- $account := .account | default .name -}}
{{- $weight := .weight | default "-1" -}}
apiVersion: v1
kind: ServiceAccount
{{ include "kai.hookMetadata" (dict "root" .root "name" $account "when" .when "weight" $weight) }}
{{- with .root.Values.global.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $kind, $rules := dict "ClusterRole" .cluster "Role" .rules }}
{{- if $rules }}
{{- $wide := eq $kind "ClusterRole" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
{{ include "kai.hookMetadata" (dict "root" $.root "name" $.name "when" $.when "weight" $weight "cluster" $wide "namespace" $.namespace) }}
rules: {{- $rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
{{ include "kai.hookMetadata" (dict "root" $.root "name" $.name "when" $.when "weight" $weight "cluster" $wide "namespace" $.namespace) }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ $kind }}, name: {{ $.name }}}
subjects:
  - {kind: ServiceAccount, name: {{ $account }}, namespace: {{ $.root.Release.Namespace }}}
{{- end }}
{{- end }}
{{- end -}}

{{/*
The Job of a hook: root, name, when, values, account (default: name), arguments, folder (mounts ConfigMap name),
weight (default: 2).
*/}}
{{- define "kai.hookJob" -}}
{{- $root := .root -}}
{{- $image := .values.image -}}
{{- if eq $image.name "crd-upgrader" -}}
{{- /* The default of the original, whose image has nothing to run here. */}}
{{- $image = merge (dict "name" "kai-scheduler") $image -}}
{{- end -}}
apiVersion: batch/v1
kind: Job
{{ include "kai.hookMetadata" (dict "root" $root "name" .name "when" .when "weight" (.weight | default "2")) }}
spec:
  backoffLimit: 3
  activeDeadlineSeconds: 280
  template:
    metadata:
      labels:
        app: {{ .name }}
        {{- include "kai.labels" $root | nindent 8 }}
    spec:
      restartPolicy: Never
      serviceAccountName: {{ .account | default .name }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      terminationGracePeriodSeconds: 5
      securityContext: {{- include "kai.podSecurityContext" $root | nindent 8 }}
      {{- with $root.Values.global.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.global.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.global.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.global.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $root.Values.global.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .name }}
          image: {{ include "kai.image" (dict "root" $root "image" $image) | quote }}
          imagePullPolicy: {{ $image.pullPolicy | default $root.Values.global.imagePullPolicy }}
          command: [python, -m, kai_hooks]
          args: {{- toYaml (concat .arguments (list (printf "--namespace=%s" $root.Release.Namespace))) | nindent 12 }}
          {{- with .values.resources }}
          resources: {{- include "kai.texts" . | nindent 12 }}
          {{- end }}
          securityContext: {{- include "kai.securityContext" $root | nindent 12 }}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            {{- with .folder }}
            - {name: files, mountPath: {{ . }}, readOnly: true}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {}
        {{- if .folder }}
        - name: files
          configMap: {name: {{ .name }}}
        {{- end }}
{{- end -}}
