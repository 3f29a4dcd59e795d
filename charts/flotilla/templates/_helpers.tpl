{{- define "flotilla.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* 49 characters leave room for the longest suffix in a name of 63. */ -}}
{{- define "flotilla.fullname" -}}
{{- $name := include "flotilla.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 49 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 49 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 49 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "flotilla.selector" -}}
app.kubernetes.io/name: flotilla
app.kubernetes.io/instance: {{ .root.Release.Name | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "flotilla.labels" -}}
app.kubernetes.io/name: flotilla
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: flotilla
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* metadata of an object: (dict "root" $ "name" "agent" "annotations" (dict) "cluster" true "labels" (dict)) */ -}}
{{- define "flotilla.metadata" -}}
{{- $annotations := merge (dict) (default (dict) .annotations) .root.Values.commonAnnotations -}}
name: {{ .name }}
{{- if not .cluster }}
namespace: {{ default .root.Release.Namespace .namespace }}
{{- end }}
labels:
  {{- include "flotilla.labels" .root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* (dict "root" $ "image" $values.image "tag" "of an image without one") */ -}}
{{- define "flotilla.imageOf" -}}
{{- with (default (dict) .root.Values.global).imageRegistry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- .image.repository -}}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ default .tag .image.tag }}{{ end -}}
{{- end -}}

{{- define "flotilla.image" -}}
{{- include "flotilla.imageOf" (dict "root" . "image" .Values.image "tag" .Chart.AppVersion) -}}
{{- end -}}

{{- /* Name of a component's service account: (dict "root" $ "component" "agent") */ -}}
{{- define "flotilla.account" -}}
{{- $values := ternary .root.Values.candidateScheduler (get .root.Values .component) (eq .component "candidates") -}}
{{- $account := default (dict) (default (dict) $values).serviceAccount -}}
{{- default (printf "%s-%s" (include "flotilla.fullname" .root) .component) $account.name -}}
{{- end -}}

{{- /* Names of all service accounts of Flotilla, those of hooks included, separated by commas. */ -}}
{{- define "flotilla.ownAccounts" -}}
{{- $names := list -}}
{{- range list "agent" "webhook" "candidates" "gateway" -}}
{{- $names = append $names (include "flotilla.account" (dict "root" $ "component" .)) -}}
{{- end -}}
{{- range list "upgrade" "uninstall" "test" -}}
{{- $names = append $names (printf "%s-%s" (include "flotilla.fullname" $) .) -}}
{{- end -}}
{{- uniq $names | join "," -}}
{{- end -}}

{{- define "flotilla.pullSecrets" -}}
{{- $names := .Values.imagePullSecrets -}}
{{- with .Values.imagePullSecretName }}{{ $names = append $names . }}{{ end -}}
{{- with $names }}
imagePullSecrets:
{{- range uniq . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Values of the agent, with those that Admiralty calls controllerManager over them. Its settings include agent.tuning. */ -}}
{{- define "flotilla.agent" -}}
{{- $agent := mergeOverwrite (deepCopy .Values.agent) (omit .Values.controllerManager "certificateSignerName") -}}
{{- with .Values.controllerManager.certificateSignerName -}}
{{- $_ := set $agent "settings" (merge (dict "kubelet-signer" .) $agent.settings) -}}
{{- end -}}
{{- $_ := set $agent "settings" (merge (dict) (default (dict) $agent.tuning) $agent.settings) -}}
{{- $agent | toYaml -}}
{{- end -}}

{{- /* Values of the gateway; those of an earlier chart have none. */ -}}
{{- define "flotilla.gateway" -}}
{{- merge (dict) (default (dict "enabled" false) .Values.gateway) (dict "connections" 8192) | toYaml -}}
{{- end -}}

{{- /* Placements: mode, crds, usageScores, what the agent does then (serves, evaluates, scores), and the file of Prometheus' scores.
       Values of an earlier chart have none of it, and YAML reads an unquoted off as false. */ -}}
{{- define "flotilla.placements" -}}
{{- $agent := include "flotilla.agent" . | fromYaml -}}
{{- $given := merge (dict) (default (dict) $agent.placement) -}}
{{- $mode := ternary $given.mode "auto" (hasKey $given "mode") | toString -}}
{{- $mode = ternary "off" $mode (eq $mode "false") -}}
{{- $usage := ternary $given.usageScores "auto" (hasKey $given "usageScores") | toString -}}
{{- $crds := or (default false $given.crds) (include "flotilla.hub" . | fromYaml).enabled -}}
{{- $serves := or (eq $mode "serve") (and (eq $mode "auto") $crds) -}}
{{- $asked := default (list) $agent.prometheusScores -}}
mode: {{ $mode | quote }}
crds: {{ $crds }}
usageScores: {{ $usage | quote }}
serves: {{ $serves }}
evaluates: {{ or $serves (default false $given.evaluate) }}
scores: {{ or (eq $usage "true") (and (eq $usage "auto") $serves) (not (empty $asked)) }}
scoreMax: {{ default (dict) $given.scoreMax | toJson }}
prometheus: {{ $asked | toJson | quote }}
{{- end -}}

{{- /* Registration of other clusters; values of an earlier chart have none of it. */ -}}
{{- define "flotilla.hub" -}}
enabled: {{ default false (default (dict) .Values.hub).enabled }}
{{- end -}}

{{- /* Whole applications of P2CODE; values of an earlier chart have none of it. */ -}}
{{- define "flotilla.p2code" -}}
{{- $given := default (dict) (include "flotilla.agent" . | fromYaml).p2code -}}
enabled: {{ default false $given.enabled }}
precedence: {{ default "global" $given.precedence | quote }}
namespace: {{ default "" $given.namespace | quote }}
namespaces: {{ default (list) $given.namespaces | toJson }}
role: {{ default "edit" $given.role | quote }}
distribution: {{ default "elect" $given.distribution | quote }}
works: {{ and (default false $given.enabled) (default false $given.works) }}
{{- end -}}

{{- /* Name of AC3's CRD where it is somebody else's, whom it is left to: neither made by this chart nor given to this release.
       What is in the release already stays there, whoever has changed its labels: Helm deletes what goes from it. */ -}}
{{- define "flotilla.othersNetworks" -}}
{{- $name := "multiclusternetworks.ac3.redhat.com" -}}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name -}}
{{- $notes := default (dict) .metadata.annotations -}}
{{- $owner := printf "%s/%s" (get $notes "meta.helm.sh/release-namespace") (get $notes "meta.helm.sh/release-name") -}}
{{- $made := eq (get (default (dict) .metadata.labels) "app.kubernetes.io/part-of") "flotilla" -}}
{{- $given := eq $owner (printf "%s/%s" $.Release.Namespace $.Release.Name) -}}
{{- $had := false -}}
{{- with lookup "apps/v1" "Deployment" $.Release.Namespace (printf "%s-agent" (include "flotilla.fullname" $)) -}}
{{- $left := hasKey (default (dict) .metadata.annotations) "multicluster/crds-of-others" -}}
{{- $had = and (contains "--ac3-networks" (toJson .spec)) (not $left) -}}
{{- end -}}
{{- if not (or $made $given $had) }}{{ $name }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* Links of AC3's networks; values of an earlier chart have none of it. */ -}}
{{- define "flotilla.ac3Networks" -}}
{{- $given := default (dict) (include "flotilla.agent" . | fromYaml).ac3Networks -}}
enabled: {{ default false $given.enabled }}
namespace: {{ default "" (ternary $given.namespace "ac3no-system" (hasKey $given "namespace")) | quote }}
{{- end -}}

{{- /* Membership of a hub; values of an earlier chart have none of it. */ -}}
{{- define "flotilla.klusterlet" -}}
{{- $secret := default "" (default (dict) .Values.klusterlet).secret -}}
{{- $works := default (dict) .Values.works -}}
enabled: {{ ne $secret "" }}
secret: {{ $secret | quote }}
rights: {{ default "admin" $works.rights }}
namespaces: {{ default (list) $works.namespaces | uniq | toJson }}
{{- end -}}

{{- /* Of all pods, with what a component's own says over it: (dict "root" $ "own" $values.securityContext) */ -}}
{{- define "flotilla.podSecurity" -}}
{{- mergeOverwrite (deepCopy .root.Values.podSecurity) (default (dict) .own) | toYaml -}}
{{- end -}}

{{- define "flotilla.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* What places pods: (dict "root" $ "component" "agent" "values" $values) */ -}}
{{- define "flotilla.placement" -}}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
{{- if .values.topologySpreadConstraints }}
  {{- toYaml .values.topologySpreadConstraints | nindent 2 }}
{{- else }}
{{- $selector := include "flotilla.selector" . | fromYaml }}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ toYaml $selector | nindent 8 }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Spec of a pod that runs the CLI once: (dict "root" $ "component" "upgrade" "verb" "upgrade" "args" (list)) */ -}}
{{- define "flotilla.commandPod" -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ printf "%s-%s" (include "flotilla.fullname" .root) .component }}
restartPolicy: Never
{{- include "flotilla.pullSecrets" .root }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.agent.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $values.agent.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext: {{ include "flotilla.podSecurity" (dict "root" .root) | nindent 2 }}
containers:
  - name: {{ .component }}
    image: {{ include "flotilla.image" .root | quote }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    command: [python, -m, agent.cli, {{ .verb }}]
    {{- with .args }}
    args: {{ toYaml . | nindent 6 }}
    {{- end }}
    # The end of its log is what `kubectl describe` shows when it fails.
    terminationMessagePolicy: FallbackToLogsOnError
    resources: {{ toYaml $values.uninstall.resources | nindent 6 }}
    securityContext: {{ include "flotilla.containerSecurity" . | nindent 6 }}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
volumes:
  - name: tmp
    emptyDir: {medium: Memory, sizeLimit: 8Mi}
{{- end -}}

{{- /* Ports of health and metrics: one, or another with authentication for metrics. */ -}}
{{- define "flotilla.healthPorts" -}}
{{- if .Values.metrics.authentication }}
- {name: health, containerPort: 8080}
- {name: metrics, containerPort: {{ include "flotilla.metricsPort" . }}}
{{- else }}
- {name: metrics, containerPort: {{ include "flotilla.metricsPort" . }}}
{{- end }}
{{- end -}}

{{- define "flotilla.metricsPort" -}}
{{ ternary 8443 8080 .Values.metrics.authentication }}
{{- end -}}

{{- /* Probes of a process that serves /healthz and /readyz on these ports. */ -}}
{{- define "flotilla.probes" -}}
{{- $port := ternary "health" "metrics" .Values.metrics.authentication }}
livenessProbe:
  httpGet: {path: /healthz, port: {{ $port }}}
  initialDelaySeconds: 10
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: {{ $port }}}
  periodSeconds: 5
  timeoutSeconds: 5
{{- with .Values.startupSeconds }}
startupProbe:
  httpGet: {path: /healthz, port: {{ $port }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: {{ div (add . 4) 5 }}
{{- end }}
{{- end -}}

{{- /* Seconds of a duration (60s, 1m30s, 100ms), or of a number of seconds. */ -}}
{{- define "flotilla.seconds" -}}
{{- if not (regexMatch "[a-z]$" (toString .)) -}}
{{- float64 . -}}
{{- else -}}
{{- $sizes := dict "d" 86400.0 "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001 -}}
{{- $total := 0.0 -}}
{{- range regexFindAll "[0-9.]+[a-z]+" . -1 -}}
{{- $total = addf $total (mulf (regexFind "^[0-9.]+" . | float64) (get $sizes (regexFind "[a-z]+$" .))) -}}
{{- end -}}
{{- $total -}}
{{- end -}}
{{- end -}}

{{- /* Flags of a map of settings, those for experts as --tuning: (dict "root" $ "process" "agent" "settings" (dict)) */ -}}
{{- define "flotilla.flags" -}}
{{- $experts := get (.root.Files.Get "files/settings.yaml" | fromYaml) (printf "%sTuning" .process) -}}
{{- range $name, $value := .settings }}
{{- if kindIs "float64" $value }}{{ $value = ternary (int64 $value) $value (eq (floor $value) $value) }}{{ end }}
- {{ printf "--%s%s=%s" (ternary "tuning=" "" (has $name $experts)) $name (toString $value) | quote }}
{{- end }}
{{- end -}}
