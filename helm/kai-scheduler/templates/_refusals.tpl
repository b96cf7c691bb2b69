{{/*
What the original's chart knows and this one does not do: a path, the value that says nothing more than its
default, and what to do instead. Nothing of it is taken and ignored.
*/}}
{{- define "kai.refusals" -}}
- {path: scheduler.goMemLimitRatio, idle: [0.9], instead: "it tunes the memory of Go; set scheduler.resources.limits.memory"}
- {path: scheduler.goMemLimit, idle: [""], instead: "it tunes the memory of Go; set scheduler.resources.limits.memory"}
- {path: admission.cdi, idle: [false], instead: "it never had an effect; set binder.cdiEnabled"}
- {path: admission.name, idle: [kai-admission, admission], instead: "it never had an effect; the component is called admission"}
- {path: binder.name, idle: [binder], instead: "it never had an effect; the component is called binder"}
- {path: global.fipsMode, idle: ["on", "off"], instead: "it switches cryptography of Go; set it to on, and build images with an OpenSSL in FIPS mode"}
- {path: global.gpuSharingMode, idle: ["", NonMemoryEnforced, HamiCore, Disabled], instead: "it needs an operator of NVIDIA's that is not part of this chart; choose NonMemoryEnforced, HamiCore or Disabled"}
- {path: global.nvFractions.set, idle: [false], instead: "it needs an operator of NVIDIA's that is not part of this chart; set global.gpuSharingMode to NonMemoryEnforced, HamiCore or Disabled"}
{{- end -}}

{{/* "true" where helm would delete the Config that is in force, since the release has none any more. */}}
{{- define "kai.losesConfig" -}}
{{- if and .Release.IsUpgrade (not .Values.kaiConfig.render) (not .Values.kaiConfigDeployer.enabled) (.Capabilities.APIVersions.Has "kai.scheduler/v1/Config") -}}
{{- $there := dig "metadata" "annotations" dict (lookup "kai.scheduler/v1" "Config" "" "kai-config" | default dict) -}}
{{- if and (eq (get $there "meta.helm.sh/release-name") .Release.Name) (ne (get $there "helm.sh/resource-policy") "keep") -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fails with all that is refused. */}}
{{- define "kai.refuse" -}}
{{- $told := list -}}
{{- $values := .Values -}}
{{- range include "kai.refusals" . | fromYamlArray -}}
  {{- $found := $values -}}
  {{- $there := true -}}
  {{- range $key := splitList "." .path -}}
    {{- if and $there (kindIs "map" $found) (hasKey $found $key) -}}
      {{- $found = get $found $key -}}
    {{- else -}}
      {{- $there = false -}}
    {{- end -}}
  {{- end -}}
  {{- $given := toJson $found -}}
  {{- $idle := list "null" -}}
  {{- range .idle -}}{{- $idle = append $idle (toJson .) -}}{{- end -}}
  {{- if and $there (not (has $given $idle)) -}}
    {{- $told = append $told (printf "%s is %s: %s" .path $given .instead) -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.kaiConfig.render .Values.kaiConfigDeployer.enabled -}}
  {{- $told = append $told "kaiConfig.render and kaiConfigDeployer.enabled are both true: either has kai-config made; set one of them to false" -}}
{{- end -}}
{{- if include "kai.losesConfig" . -}}
  {{- $told = append $told "kaiConfig.render and kaiConfigDeployer.enabled are both false, and kai-config is a part of this release: helm would delete it, and with it all that the operator made of it, volumes included; to have it stay, and be yours, run first: kubectl annotate config kai-config helm.sh/resource-policy=keep" -}}
{{- end -}}
{{- if and .Values.global.gpuSharing (eq (.Values.global.gpuSharingMode | default "") "Disabled") -}}
  {{- $told = append $told "global.gpuSharing is true and global.gpuSharingMode is Disabled: one switches on what the other switches off; remove one of them" -}}
{{- end -}}
{{- if and .Values.global.clusterAutoscaling (eq (include "kai.scalingNamespace" .) .Values.global.resourceReservation.namespace) -}}
  {{- $told = append $told "nodescaleadjuster.scalingPodNamespace and global.resourceReservation.namespace are the same: what may be done with reservation pods is not to be done with scaling pods; give them two namespaces" -}}
{{- end -}}
{{- if and .Values.podgrouper.defaultPrioritiesConfigMapName (not .Values.podgrouper.defaultPrioritiesConfigMapNamespace) -}}
  {{- $told = append $told "podgrouper.defaultPrioritiesConfigMapNamespace is needed with a name" -}}
{{- end -}}
{{- if and .Values.certificates.existing.enabled (not .Values.certificates.existing.caBundle) -}}
  {{- $told = append $told "certificates.existing.caBundle is needed with certificates.existing.enabled" -}}
{{- end -}}
{{- with .Values.insight -}}
  {{- if .ingress.enabled -}}
    {{- if not .enabled -}}
      {{- $told = append $told "insight.ingress.enabled is true and insight.enabled is not: there is no page to lead to; set insight.enabled" -}}
    {{- end -}}
    {{- if not .ports.httpPort -}}
      {{- $told = append $told "insight.ingress.enabled is true and insight.ports.httpPort is 0: the page is served there; give it a port" -}}
    {{- end -}}
    {{- if not $values.global.tls.enabled -}}
      {{- $told = append $told "insight.ingress.enabled is true and global.tls.enabled is not: tokens go over TLS only, and without it the page is on the loopback of its pod; set global.tls.enabled" -}}
    {{- end -}}
    {{- if not .ingress.host -}}
      {{- $told = append $told "insight.ingress.host is needed with insight.ingress.enabled: the page is at the root of a name of its own" -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- with $told -}}{{- fail (printf "\n%s" (join "\n" .)) -}}{{- end -}}
{{- end -}}
