{{- define "kai.nodeScaleAdjusterHolds" -}}
{{- $user := include "kai.user" (dict "root" . "account" "node-scale-adjuster") | quote -}}
{{- $images := include "kai.scalingImages" . | fromJsonArray -}}
- accounts: [{{ $user }}]
  group: ""
  resources: [pods]
  operations: [CREATE]
  variables:
    - name: spec
      expression: object.spec
    - name: container
      expression: "variables.spec.containers[0]"
  rules:
    - expression: "has(object.metadata.labels) && 'app' in object.metadata.labels && object.metadata.labels['app'] == 'scaling-pod'"
      message: this account may make only pods with the label app=scaling-pod
    - expression: "variables.spec.containers.size() == 1 && !has(variables.spec.initContainers)"
      message: a scaling pod has one container
    - expression: {{ printf "variables.container.image.matches(%s)" (include "kai.ofRepositories" $images) | toJson }}
      message: "a scaling pod may only have the images {{ join ", " $images }} (value admissionPolicies.reservationImages)"
    - expression: "!has(variables.container.command) && has(variables.container.args) && variables.container.args == ['python', '-m', 'kai_scaling_pod']"
      message: a scaling pod runs what its image is for
    - expression: "!has(variables.spec.nodeName) || variables.spec.nodeName == ''"
      message: a scaling pod has no node
    - expression: "has(variables.spec.schedulerName) && variables.spec.schedulerName == 'kai-node-scale-adjuster'"
      message: a scaling pod is for no scheduler to place
    - expression: "!(has(variables.spec.hostNetwork) && variables.spec.hostNetwork) && !(has(variables.spec.hostPID) && variables.spec.hostPID) && !(has(variables.spec.hostIPC) && variables.spec.hostIPC)"
      message: a scaling pod may not use the network, processes or memory of its host
    - expression: >-
        !has(variables.container.securityContext) ||
        !(has(variables.container.securityContext.privileged) && variables.container.securityContext.privileged) &&
        !(has(variables.container.securityContext.capabilities) && has(variables.container.securityContext.capabilities.add) &&
        variables.container.securityContext.capabilities.add.size() > 0)
      message: a scaling pod may not be privileged, nor have capabilities added
    - expression: "!has(variables.spec.volumes) && !has(variables.container.env) && !has(variables.container.envFrom)"
      message: a scaling pod reads nothing
- accounts: [{{ $user }}]
  group: ""
  resources: [pods/status]
  operations: [UPDATE]
  may:
    status: [conditions]
  variables:
    {{- include "kai.conditions" . | nindent 4 }}
  rules:
    {{- include "kai.ourConditions" "PodScheduled" | nindent 4 }}
    - expression: variables.conditions.all(c, c.type != 'PodScheduled' || c.status == 'False' || c in variables.oldConditions)
      message: this account may say only that a pod is not scheduled
{{- end -}}
