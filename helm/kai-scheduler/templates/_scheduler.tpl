{{/* Written by `make derived`. */}}
{{- define "kai.defaultPlugins" -}}
predicates: 1900
proportion: 1800
priority: 1700
nodeavailability: 1600
resourcetype: 1500
podaffinity: 1400
elastic: 1300
kubeflow: 1200
ray: 1100
subgrouporder: 1000
taskorder: 900
nominatednode: 800
dynamicresources: 700
minruntime: 600
topology: 500
snapshot: 400
sg-nodelocalgreedy: 360
sg-multinodegang: 350
gpupack: 300
nodeplacement: 200
gpusharingorder: 100
{{- end }}
{{- define "kai.defaultActions" -}}
allocate: 500
consolidation: 400
reclaim: 300
preempt: 200
stalegangeviction: 100
{{- end }}
