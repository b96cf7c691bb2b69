{{/*
The certificates of the installation, made once for all templates: a dict of authority -> {pairs: secret ->
{cert, key}, bundle: what to trust (PEM), issued: Unix time}. Kept from the cluster while they are young
enough; new ones are trusted beside those they replace.
*/}}
{{- define "kai.certificates" -}}
{{- if not (hasKey .Release "kaiCertificates") -}}
{{- $root := . -}}
{{- $namespace := .Release.Namespace -}}
{{- $now := now | unixEpoch | int64 -}}
{{- $all := dict -}}
{{- range $name, $secrets := include "kai.certificateNames" . | fromYaml -}}
{{- $found := dict "pairs" dict "bundle" "" "issued" $now -}}
{{- $complete := true -}}
{{- range $secret, $host := $secrets -}}
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
{{- if or (not $complete) (ge (int $age) (int $root.Values.certificates.renewAfterDays)) -}}
  {{- $days := int $root.Values.certificates.validDays -}}
  {{- $authority := genCA (printf "kai-scheduler %s" $name) $days -}}
  {{- $pairs := dict -}}
  {{- range $secret, $host := $secrets -}}
    {{- $made := genSignedCert $host (list) (list $host) $days $authority -}}
    {{- $_ := set $pairs $secret (dict "cert" $made.Cert "key" $made.Key) -}}
  {{- end -}}
  {{- $old := $found.bundle | trim -}}
  {{- $found = dict "pairs" $pairs "bundle" (printf "%s\n%s" ($authority.Cert | trim) $old | trim | printf "%s\n") "issued" $now -}}
{{- end -}}
{{- $_ := set $all $name $found -}}
{{- end -}}
{{- $_ := set .Release "kaiCertificates" $all -}}
{{- end -}}
{{- end -}}

{{/*
Authority -> secret -> DNS name of its certificate. That of gRPC signs nothing but what names the role of a
process (kai.wire.permissions), for who talks over gRPC; what the API server is shown is of another one, and that
of Redis signs for Redis alone.
*/}}
{{- define "kai.certificateNames" -}}
{{- $namespace := .Release.Namespace -}}
webhooks:
  kai-admission-webhook-tls-secret: admission.{{ $namespace }}.svc
  podgroup-webhook-tls-secret: podgroup-controller.{{ $namespace }}.svc
  queue-webhook-tls-secret: queue-controller.{{ $namespace }}.svc
{{- if .Values.global.tls.enabled }}
grpc:
  {{- range $role := list "scheduler" "binder" "podgroup-controller" "queue-controller" "kai-cli" }}
  {{ $role }}-grpc-tls-secret: {{ $role }}.{{ $namespace }}.svc
  {{- end }}
{{- if eq (include "kai.ownRedis" .) "true" }}
redis:
  kai-redis-tls-secret: kai-redis
{{- end }}
{{- end }}
{{- end -}}

{{/* What the API server trusts our webhooks by. */}}
{{- define "kai.caBundle" -}}
{{- if .Values.certificates.existing.enabled -}}
{{- required "certificates.existing.caBundle is needed with certificates.existing.enabled" .Values.certificates.existing.caBundle -}}
{{- else -}}
{{- include "kai.certificates" . -}}
{{- .Release.kaiCertificates.webhooks.bundle | b64enc -}}
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
