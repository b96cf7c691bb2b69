module kai.scheduler/e2e/controlplane/pause

go 1.26.0
