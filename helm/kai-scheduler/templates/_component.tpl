{{/*
A component: ServiceAccount, Deployment and, with several replicas, a PodDisruptionBudget.

  root      the context of the chart
  values    the component's values
  name      of all its objects
  module    Python module to run
  flags     its flags, as a YAML list
  ports     name -> number
  probe     name of the port with /healthz and /readyz
  secrets   directory -> secret to mount there (optional)
  configMap its name, mounted at /etc/config (optional)
  checksum  of what must restart it when it changes (optional)
  redis     whether it is told where Redis is
  token     whether it talks to the API server
*/}}
{{- define "kai.component" -}}
{{- $root := .root -}}
{{- $replicas := int (include "kai.replicas" .) -}}
{{- $secrets := .secrets | default dict -}}
{{- $redisFlags := "" -}}
{{- if .redis -}}{{- $redisFlags = include "kai.redisFlags" $root | trim -}}{{- end -}}
{{- if $redisFlags -}}{{- $secrets = merge (dict "/etc/kai/redis" (include "kai.redisSecret" $root)) $secrets -}}{{- end -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .account | default .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    app: {{ .name }}
    {{- include "kai.labels" $root | nindent 4 }}
{{- with $root.Values.global.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    app: {{ .name }}
    {{- include "kai.labels" $root | nindent 4 }}
spec:
  replicas: {{ $replicas }}
  selector:
    matchLabels:
      app: {{ .name }}
  # Two generations may overlap: leaders are fenced, and what all replicas do is harmless to do twice.
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  template:
    metadata:
      labels:
        app: {{ .name }}
        {{- include "kai.labels" $root | nindent 8 }}
      {{- with .checksum }}
      annotations:
        checksum/config: {{ . }}
      {{- end }}
    spec:
      serviceAccountName: {{ .account | default .name }}
      automountServiceAccountToken: {{ .token }}
      enableServiceLinks: false
      terminationGracePeriodSeconds: 30
      securityContext: {{- include "kai.podSecurityContext" $root | nindent 8 }}
      affinity: {{- include "kai.affinity" (dict "root" $root "name" .name "affinity" .values.affinity) | nindent 8 }}
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
          image: {{ include "kai.image" (dict "root" $root "image" .values.image) | quote }}
          imagePullPolicy: {{ .values.image.pullPolicy | default $root.Values.global.imagePullPolicy }}
          command: [python, -m, {{ .module }}]
          args: {{- include "kai.commonFlags" . | nindent 12 }}
            {{- .flags | nindent 12 }}
            {{- with $redisFlags }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- include "kai.extraFlags" .values | nindent 12 }}
          env:
            - name: POD_IP
              valueFrom: {fieldRef: {fieldPath: status.podIP}}
            {{- if .redis }}
            {{- include "kai.redisEnvironment" $root | nindent 12 }}
            {{- end }}
          ports:
            {{- range $name, $number := .ports }}
            - {name: {{ $name }}, containerPort: {{ $number }}, protocol: TCP}
            {{- end }}
          # The first start may have to wait for the API server.
          startupProbe:
            httpGet: {path: /healthz, port: {{ .probe }}}
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /healthz, port: {{ .probe }}}
            periodSeconds: 20
            timeoutSeconds: 5
          readinessProbe:
            httpGet: {path: /readyz, port: {{ .probe }}}
            periodSeconds: 5
            timeoutSeconds: 5
          {{- with .values.resources }}
          resources: {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext: {{- include "kai.securityContext" $root | nindent 12 }}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            {{- range $directory, $secret := $secrets }}
            - {name: {{ $secret }}, mountPath: {{ $directory }}, readOnly: true}
            {{- end }}
            {{- if contains "/etc/kai/redis-authority" $redisFlags }}
            - {name: redis-authority, mountPath: /etc/kai/redis-authority, readOnly: true}
            {{- end }}
            {{- if .configMap }}
            - {name: config, mountPath: /etc/config, readOnly: true}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {}
        {{- range $directory, $secret := $secrets }}
        - name: {{ $secret }}
          secret: {secretName: {{ $secret }}, defaultMode: 0444}
        {{- end }}
        {{- if contains "/etc/kai/redis-authority" $redisFlags }}
        # Without the key, which is for Redis alone.
        - name: redis-authority
          secret: {secretName: kai-redis-tls-secret, defaultMode: 0444, items: [{key: ca.crt, path: ca.crt}]}
        {{- end }}
        {{- if .configMap }}
        - name: config
          configMap: {name: {{ .configMap }}}
        {{- end }}
{{- if and (gt $replicas 1) .values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    app: {{ .name }}
    {{- include "kai.labels" $root | nindent 4 }}
spec:
  maxUnavailable: {{ .values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      app: {{ .name }}
{{- end }}
{{- end -}}

{{/* A Service of a component: name, ports (name -> {port, target}), headless. */}}
{{- define "kai.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    app: {{ .name }}
    {{- include "kai.labels" .root | nindent 4 }}
  {{- with .annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- if .headless }}
  clusterIP: None
  {{- end }}
  selector:
    app: {{ .name }}
  ports:
    {{- range $name, $port := .ports }}
    - {name: {{ $name }}, port: {{ $port.port }}, targetPort: {{ $port.target }}, protocol: TCP}
    {{- end }}
{{- end -}}
