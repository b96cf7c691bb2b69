{{/*
The certificates of the installation, made once for all templates: a dict of secret -> {cert, key}, with
"bundle" (what to trust, PEM), "issued" (Unix time) and "fresh" (whether they are new). Kept from the cluster
while they are young enough; new ones are trusted beside those they replace.
*/}}
{{- define "kai.certificates" -}}
{{- if not (hasKey .Release "kaiCertificates") -}}
{{- $root := . -}}
{{- $namespace := .Release.Namespace -}}
{{- $now := now | unixEpoch | int64 -}}
{{- $found := dict "pairs" dict "bundle" "" "issued" $now -}}
{{- $complete := true -}}
{{- range $secret, $names := include "kai.certificateNames" . | fromYaml -}}
  {{- $known := lookup "v1" "Secret" $namespace $secret -}}
  {{- if and $known (hasKey ($known.data | default dict) "tls.crt") -}}
    {{- $_ := set $found.pairs $secret (dict "cert" (b64dec (index $known.data "tls.crt")) "key" (b64dec (index $known.data "tls.key"))) -}}
    {{- $_ := set $found "bundle" (b64dec (index $known.data "ca.crt")) -}}
    {{- $issued := index ($known.metadata.annotations | default dict) "kai.scheduler/issued" | default "0" | int64 -}}
    {{- $_ := set $found "issued" (min $issued $found.issued) -}}
  {{- else -}}
    {{- $complete = false -}}
  {{- end -}}
{{- end -}}
{{- $age := div (sub $now $found.issued) 86400 -}}
{{- if or (not $complete) (ge (int $age) (int .Values.certificates.renewAfterDays)) -}}
  {{- $days := int .Values.certificates.validDays -}}
  {{- $authority := genCA "kai-scheduler" $days -}}
  {{- $pairs := dict -}}
  {{- range $secret, $names := include "kai.certificateNames" . | fromYaml -}}
    {{- $made := genSignedCert (first $names) (list) $names $days $authority -}}
    {{- $_ := set $pairs $secret (dict "cert" $made.Cert "key" $made.Key) -}}
  {{- end -}}
  {{- $old := $found.bundle | trim -}}
  {{- $found = dict "pairs" $pairs "bundle" (printf "%s\n%s" ($authority.Cert | trim) $old | trim | printf "%s\n") "issued" $now -}}
{{- end -}}
{{- $_ := set .Release "kaiCertificates" $found -}}
{{- end -}}
{{- end -}}

{{/* Secret -> DNS names of its certificate. */}}
{{- define "kai.certificateNames" -}}
{{- $namespace := .Release.Namespace -}}
kai-admission-webhook-tls-secret: [admission.{{ $namespace }}.svc]
podgroup-webhook-tls-secret: [podgroup-controller.{{ $namespace }}.svc]
queue-webhook-tls-secret: [queue-controller.{{ $namespace }}.svc]
{{- if .Values.global.tls.enabled }}
kai-grpc-tls-secret: [scheduler.{{ $namespace }}.svc, pod-grouper.{{ $namespace }}.svc, scheduler, pod-grouper]
{{- end }}
{{- end -}}

{{/* What the API server trusts our webhooks by. */}}
{{- define "kai.caBundle" -}}
{{- if .Values.certificates.existing.enabled -}}
{{- required "certificates.existing.caBundle is needed with certificates.existing.enabled" .Values.certificates.existing.caBundle -}}
{{- else -}}
{{- include "kai.certificates" . -}}
{{- .Release.kaiCertificates.bundle | b64enc -}}
{{- end -}}
{{- end -}}

{{/* Flags for TLS between our processes. */}}
{{- define "kai.tlsFlags" -}}
{{- if .Values.global.tls.enabled }}
- --tls-ca=/etc/kai/tls/ca.crt
- --tls-cert=/etc/kai/tls/tls.crt
- --tls-key=/etc/kai/tls/tls.key
{{- end }}
{{- end -}}
