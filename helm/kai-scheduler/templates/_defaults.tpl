{{/*
Values whose absence says something: null for them takes away what they say without. Of a mapping among them only
the whole of it is filled in, for its keys are handed on as they are.
*/}}
{{- define "kai.leftToTheirAbsence" -}}
- global.gpuSharing
- global.vpa.updatePolicy
- global.vpa.resourcePolicy
- admission.gpuFractionRuntimeClassName
- dashboards.labels
{{- end -}}

{{/*
Fills in what is not there; every template that reads values begins with it. An upgrade with --reuse-values knows
only those of the release before it, and of what is null helm takes the default away.
*/}}
{{- define "kai.prepare" -}}
{{- $absent := include "kai.leftToTheirAbsence" . | fromYamlArray -}}
{{- include "kai.fill" (dict "into" .Values "from" (include "kai.defaults" . | fromYaml) "but" $absent) -}}
{{- $_ := set .Values.global "nodePoolLabelKey" (.Values.global.nodePoolLabelKey | default "kai.scheduler/node-pool") -}}
{{- $_ := set .Values.podgrouper "queueLabelKey" (.Values.podgrouper.queueLabelKey | default "kai.scheduler/queue") -}}
{{- $_ := set .Values.scheduler "placementStrategy" (.Values.scheduler.placementStrategy | default "binpack") -}}
{{- end -}}

{{/* Puts in what is not there: into, from, but (paths that are left alone where what is above them is there). What is false or empty is there. */}}
{{- define "kai.fill" -}}
{{- $into := .into -}}
{{- $but := .but | default list -}}
{{- $above := .above | default "" -}}
{{- range $key, $value := .from -}}
{{- $path := print $above $key -}}
{{- $left := has $path $but -}}
{{- if not (hasKey $into $key) -}}
{{- if or (not $left) (kindIs "map" $value) -}}{{- $_ := set $into $key $value -}}{{- end -}}
{{- else if and (not $left) (kindIs "map" $value) (kindIs "map" (get $into $key)) -}}
{{- include "kai.fill" (dict "into" (get $into $key) "from" $value "but" $but "above" (print $path ".")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
