{{/* The Secrets that the operator makes. */}}
{{- define "kai.operatorSecrets" -}}
- kai-redis
- kai-redis-tls-secret
- kai-admission-webhook-tls-secret
- podgroup-webhook-tls-secret
- queue-webhook-tls-secret
- scheduler-grpc-tls-secret
- binder-grpc-tls-secret
- pod-grouper-grpc-tls-secret
- podgroup-controller-grpc-tls-secret
- queue-controller-grpc-tls-secret
- insight-grpc-tls-secret
- kai-cli-grpc-tls-secret
{{- end -}}
{{/* The accounts of the processes that it runs. */}}
{{- define "kai.operandAccounts" -}}
[admission, binder, insight, node-scale-adjuster, numa-placement-exporter, pod-grouper, podgroup-controller, queue-controller, scheduler]
{{- end -}}
{{- define "kai.operatorHolds" -}}
{{- $operator := include "kai.user" (dict "root" . "account" "kai-operator") -}}
{{- $name := .Values.global.schedulerName -}}
# A role cannot say how names begin: Leases of schedulers whose shard is gone.
- accounts: [{{ $operator | quote }}]
  group: coordination.k8s.io
  resources: [leases]
  operations: [DELETE]
  namespace: {{ .Release.Namespace }}
  rules:
    - expression: {{ printf "%s && oldObject.metadata.name.startsWith('%s-')" (include "kai.nobodyElsesLease" "oldObject.metadata.name") $name | toJson }}
      message: this account may delete only the Leases of schedulers
# Nor can it say which names may be created.
- accounts: [{{ $operator | quote }}]
  group: scheduling.k8s.io
  resources: [priorityclasses]
  operations: [CREATE]
  rules:
    - expression: "object.metadata.name in {{ include "kai.priorityClasses" . | replace "\"" "'" }} && !(has(object.globalDefault) && object.globalDefault)"
      message: this account may make only the priority classes of an installation
# A Secret of another type would be filled with the token of any account of the namespace, hooks' among them.
- accounts: [{{ $operator | quote }}]
  group: ""
  resources: [secrets]
  operations: [CREATE, UPDATE]
  rules:
    - expression: "object.metadata.name in {{ include "kai.operatorSecrets" . | fromYamlArray | toJson | replace "\"" "'" }}"
      message: this account may make only the Secrets of an installation
    - expression: "!has(object.type) || object.type in ['', 'Opaque', 'kubernetes.io/tls']"
      message: this account may make no token of an account
# Nothing of an installation needs more of a node than this. Of the host only a DaemonSet sees anything, and reads it.
- accounts: [{{ $operator | quote }}]
  group: apps
  resources: [deployments, daemonsets]
  operations: [CREATE, UPDATE]
  variables:
    - name: spec
      expression: object.spec.template.spec
    - name: containers
      expression: "variables.spec.containers + (has(variables.spec.initContainers) ? variables.spec.initContainers : [])"
  rules:
    - expression: "!has(variables.spec.serviceAccountName) || variables.spec.serviceAccountName in {{ include "kai.operandAccounts" . | fromYamlArray | toJson | replace "\"" "'" }}"
      message: pods of an installation may act only by the accounts of an installation
    - expression: "!(has(variables.spec.hostNetwork) && variables.spec.hostNetwork) && !(has(variables.spec.hostPID) && variables.spec.hostPID) && !(has(variables.spec.hostIPC) && variables.spec.hostIPC)"
      message: pods of an installation may not use the network, processes or memory of their host
    - expression: >-
        variables.containers.all(c, !has(c.securityContext) || !(has(c.securityContext.privileged) && c.securityContext.privileged)
        && !(has(c.securityContext.capabilities) && has(c.securityContext.capabilities.add)
        && c.securityContext.capabilities.add.size() > 0))
      message: pods of an installation may not be privileged, nor have capabilities added
    - expression: >-
        !has(variables.spec.volumes) || variables.spec.volumes.all(v, !has(v.hostPath)) || object.metadata.name == 'numa-placement-exporter'
        && request.kind.kind == 'DaemonSet' && variables.containers.all(c, !has(c.volumeMounts) ||
        c.volumeMounts.all(m, has(m.readOnly) && m.readOnly || !variables.spec.volumes.exists(v, v.name == m.name && has(v.hostPath))))
      message: pods of an installation may have no volumes of the host
{{- end -}}
