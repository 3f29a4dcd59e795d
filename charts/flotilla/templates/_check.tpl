{{- /* Values that contradict each other, or mean nothing here; and what is in the way in the cluster. */ -}}
{{- define "flotilla.check" -}}
{{- $values := .Values -}}
{{- $agent := include "flotilla.agent" . | fromYaml -}}

{{- /* 0. Values of an earlier version of the chart, without the defaults of this one. */ -}}
{{- if not (and (hasKey $values "podSecurity") (hasKey $values.candidateScheduler "serviceAccount")) -}}
{{- fail "these values are those of an earlier version of the chart, without the defaults of this one: upgrade with --reset-then-reuse-values instead of --reuse-values" -}}
{{- end -}}

{{- /* 1. Names of Admiralty's chart that mean nothing here. */ -}}
{{- range $name, $instead := dict
      "restarter" "remove it: the agent takes up new Targets and credentials without a restart"
      "postDeleteJob" "remove it: see uninstall.policy and uninstall.resources"
      "debug" "remove it: see agent.logLevel and webhook.logLevel" -}}
{{- if get $values $name -}}
{{- fail (printf "%s means something in Admiralty's chart only: %s" $name $instead) -}}
{{- end -}}
{{- end -}}
{{- if hasKey $values.controllerManager "image" -}}
{{- fail "controllerManager.image names an image of Admiralty: remove it, and set image.repository and image.tag where Flotilla's image is elsewhere" -}}
{{- end -}}
{{- range $name, $_ := omit $values.scheduler "resources" -}}
{{- fail (printf "scheduler.%s means something in Admiralty's chart only: remove it. The proxy scheduler is part of the agent (agent.%s), the candidate scheduler runs in pods of its own (candidateScheduler)" $name $name) -}}
{{- end -}}

{{- /* 2. Contradictions. */ -}}
{{- if and $values.certificates.issuerRef (ne $values.certificates.provider "cert-manager") -}}
{{- fail "certificates.issuerRef needs certificates.provider=cert-manager: the built-in CA has no issuer" -}}
{{- end -}}
{{- if and $values.candidateScheduler.enabled (not $values.candidateScheduler.image.repository) -}}
{{- fail "candidateScheduler.enabled needs candidateScheduler.image.repository: where this cluster gets its own kube-scheduler from (kubectl -n kube-system get pods -o jsonpath='{..image}' may show it)" -}}
{{- end -}}
{{- if and (include "flotilla.ac3Networks" . | fromYaml).enabled (eq (get $agent.settings "service-links" | toString) "false") -}}
{{- fail "agent.ac3Networks.enabled makes ServiceLinks, and agent.settings.service-links=false switches them off: remove that" -}}
{{- end -}}
{{- $hold := get $agent.settings "hold" -}}
{{- if and $values.candidateScheduler.enabled $hold (ge (include "flotilla.seconds" $hold | float64) (include "flotilla.seconds" $values.candidateScheduler.bindTimeout | float64)) -}}
{{- fail (printf "agent.settings.hold (%v) must be shorter than candidateScheduler.bindTimeout (%v; plain numbers are seconds): a bind that the scheduler gives up reserves nothing" $hold $values.candidateScheduler.bindTimeout) -}}
{{- end -}}
{{- range $name, $where := dict
      "cluster-name" "clusterName" "log-level" "agent.logLevel" "log-json" "agent.logJson" "kubelet-port" "agent.kubeletPort"
      "source-controller" "sourceController.enabled" "summary-detail" "agent.summaryDetail" "cluster-property" "agent.clusterProperties" "summary-used" "agent.summaryUsed"
      "answer-daemon-sets" "agent.answerDaemonSets" "target-plugins" "agent.targetPlugins" "extender-address" "candidateScheduler.enabled" "scheduling" "agent.scheduling" "extra-score" "agent.extraScores" "placement" "agent.placement.mode" "usage-scores" "agent.placement.usageScores" "score-max" "agent.placement.scoreMax" "prometheus-scores" "agent.prometheusScores" "ac3-networks" "agent.ac3Networks.enabled" "ac3-namespace" "agent.ac3Networks.namespace" "hub-secret" "klusterlet.secret" "works-account" "nothing: it is the chart's" "p2code" "agent.p2code.enabled" "p2code-precedence" "agent.p2code.precedence" "p2code-namespace" "agent.p2code.namespace" "p2code-distribution" "agent.p2code.distribution" "hub" "hub.enabled" "health-address" "nothing: it is the chart's" "metrics-address" "metrics.authentication" "gateway" "gateway.enabled" "gateway-service" "gateway.enabled" "gateway-headless" "gateway.headless" "gateway-address" "gateway.addresses"
      "kubeconfig" "nothing: the agent uses its service account" "namespace" "nothing: it is the release's" -}}
{{- if hasKey $agent.settings $name -}}
{{- fail (printf "agent.settings.%s: use %s" $name $where) -}}
{{- end -}}
{{- end -}}
{{- range $name, $where := dict
      "log-level" "webhook.logLevel" "log-json" "webhook.logJson" "reinvocation-policy" "webhook.reinvocationPolicy" "certificates" "certificates.provider"
      "register" "nothing: the chart makes the configurations" "placements" "agent.placement.crds" "agent-user" "nothing: it is the chart's agent" "bind" "nothing: it is the chart's" "service" "nothing: it is the chart's" "url" "nothing: the chart has a Service"
      "health-address" "nothing: it is the chart's" "metrics-address" "metrics.authentication" "configuration-name" "nothing: it is fixed" "certificate-secret" "nothing: it is fixed"
      "kubeconfig" "nothing: the webhook uses its service account" "namespace" "nothing: it is the release's" -}}
{{- if hasKey $values.webhook.settings $name -}}
{{- fail (printf "webhook.settings.%s: use %s" $name $where) -}}
{{- end -}}
{{- end -}}
{{- range $process := list "agent" "webhook" "candidateScheduler" -}}
{{- $account := (get $values $process).serviceAccount -}}
{{- if and (not $account.create) (not $account.name) -}}
{{- fail (printf "%s.serviceAccount.create=false needs %s.serviceAccount.name: the account that gets the rights, which every pod with that account has then" $process $process) -}}
{{- end -}}
{{- end -}}
{{- range $agent.extraEnv -}}
{{- if has .name (list "POD_NAME" "VKUBELET_POD_IP") -}}
{{- fail (printf "agent.extraEnv: remove %s: the chart sets it" .name) -}}
{{- end -}}
{{- end -}}
{{- range $process, $annotations := dict "agent" $agent.podAnnotations "webhook" $values.webhook.podAnnotations "candidateScheduler" $values.candidateScheduler.podAnnotations -}}
{{- range $key := list "multicluster.admiralty.io/elect" "multicluster/elect" -}}
{{- if hasKey $annotations $key -}}
{{- fail (printf "%s.podAnnotations: remove %s: its pods run in the cluster that they are for, and without agent and webhook no elected pod is created" $process $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $known := .Files.Get "files/settings.yaml" | fromYaml -}}
{{- range $process := list "agent" "webhook" -}}
{{- range $name, $_ := default (dict) (get $values $process).tuning -}}
{{- if not (has $name (get $known (printf "%sTuning" $process))) -}}
{{- if has $name (get $known $process) -}}
{{- fail (printf "%s.tuning.%s: use %s.settings.%s" $process $name $process $name) -}}
{{- end -}}
{{- fail (printf "%s.tuning.%s: the %s of this version has no such setting (docs/settings.md has all of them)" $process $name $process) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $process, $given := dict "agent" $agent.settings "webhook" $values.webhook.settings -}}
{{- range $name, $_ := $given -}}
{{- if not (has $name (get $known $process)) -}}
{{- fail (printf "%s.settings.%s: the %s of this version has no such flag (docs/reference/settings.md has all of them)" $process $name $process) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $placement := include "flotilla.placements" . | fromYaml -}}
{{- if eq $placement.mode "off" -}}
{{- if $placement.evaluates -}}
{{- fail "agent.placement.evaluate=true with agent.placement.mode=off: Placements are not looked at then; set the mode to auto or consume" -}}
{{- end -}}
{{- if eq $placement.usageScores "true" -}}
{{- fail "agent.placement.usageScores=true with agent.placement.mode=off: scores are for Placements, which are not looked at then; set the mode to auto, serve or consume" -}}
{{- end -}}
{{- if ne $placement.prometheus "[]" -}}
{{- fail "agent.prometheusScores with agent.placement.mode=off: scores are for Placements, which are not looked at then; set the mode to auto, serve or consume" -}}
{{- end -}}
{{- end -}}
{{- if (include "flotilla.hub" . | fromYaml).enabled -}}
{{- if not (has $placement.mode (list "auto" "serve")) -}}
{{- fail (printf "hub.enabled=true with agent.placement.mode=%s: a hub has the ManagedClusters, which another controller has then; set the mode to auto or serve" $placement.mode) -}}
{{- end -}}
{{- if not $values.admissionPolicies.enabled -}}
{{- fail "hub.enabled=true with admissionPolicies.enabled=false: a policy alone keeps clusters from accepting themselves; set admissionPolicies.enabled=true" -}}
{{- end -}}
{{- end -}}
{{- $p2code := include "flotilla.p2code" . | fromYaml -}}
{{- if and $p2code.enabled (eq $placement.mode "off") -}}
{{- fail "agent.p2code.enabled=true with agent.placement.mode=off: a cluster is chosen for each bundle by a Placement, which are not looked at then; set the mode to auto, serve or consume" -}}
{{- end -}}
{{- $klusterlet := include "flotilla.klusterlet" . | fromYaml -}}
{{- if and $klusterlet.enabled (eq $klusterlet.rights "namespaces") (not $klusterlet.namespaces) -}}
{{- fail "works.rights=namespaces without works.namespaces: ManifestWorks could not be applied anywhere; list the namespaces" -}}
{{- end -}}
{{- if and $p2code.enabled (eq $p2code.distribution "works") (not $p2code.works) -}}
{{- fail "agent.p2code.distribution=works with agent.p2code.works=false: the agent may not read ManifestWorks then; set agent.p2code.works=true, or distribution=elect" -}}
{{- end -}}
{{- range $index, $score := $placement.prometheus | fromJsonArray -}}
{{- if not (lt (default 0.0 $score.min | float64) ($score.max | float64)) -}}
{{- fail (printf "agent.prometheusScores[%d].max (%v) must be more than its min (%v), which is the score -100: swap them, or correct one" $index $score.max (default 0.0 $score.min)) -}}
{{- end -}}
{{- if and (or $score.tokenSecret $score.caBundle) (not (hasPrefix "https://" $score.url)) -}}
{{- fail (printf "agent.prometheusScores[%d].%s is for https only, and url is %s: use https, or remove it" $index (ternary "tokenSecret" "caBundle" (not (empty $score.tokenSecret))) $score.url) -}}
{{- end -}}
{{- end -}}
{{- if and (not $values.crds.install) (not $values.crds.keep) -}}
{{- fail "crds.keep=false with crds.install=false: CRDs that the chart does not install it cannot remove" -}}
{{- end -}}

{{- /* 3. What is in the cluster already. (helm template and a client-side dry run look at no cluster.) */ -}}
{{- $mine := printf "%s/%s" .Release.Namespace .Release.Name -}}
{{- $theirs := dict -}}
{{- range $path, $_ := .Files.Glob "files/*-crds/*.yaml" -}}
{{- if or (contains "/placement-crds/" $path) (and (contains "/hub-crds/" $path) (include "flotilla.hub" $ | fromYaml).enabled) -}}
{{- $_ := set $theirs (get ($.Files.Get $path | fromYaml).metadata "name") true -}}
{{- end -}}
{{- end -}}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "").items -}}
{{- if eq .metadata.name "multicluster-scheduler-source" -}}
{{- $notes := default (dict) .metadata.annotations -}}
{{- $owner := printf "%s/%s" (get $notes "meta.helm.sh/release-namespace") (get $notes "meta.helm.sh/release-name") -}}
{{- if and (ne $owner "/") (ne $owner $mine) -}}
{{- fail (printf "this cluster has one already: release %s (namespace/name). There is one agent per cluster: helm upgrade that one, or uninstall it first" $owner) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $values.crds.install -}}
{{- range (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "").items -}}
{{- if hasSuffix ".multicluster.admiralty.io" .metadata.name -}}
{{- $notes := default (dict) .metadata.annotations -}}
{{- $chart := get (default (dict) .metadata.labels) "helm.sh/chart" -}}
{{- $release := get $notes "meta.helm.sh/release-name" -}}
{{- if regexMatch "^(admiralty|multicluster-scheduler)(-|$)" $chart -}}
{{- fail (printf "CustomResourceDefinition %s belongs to Admiralty (chart %s, release %s): both cannot run in one cluster, since they act on the same objects. Uninstall Admiralty first; to keep its Targets and Sources, save them before (kubectl get targets,clustertargets,sources,clustersources -A -o yaml) and apply them afterwards. If it is gone and has left this: delete it, or install with crds.install=false" .metadata.name $chart (default "unknown" $release)) -}}
{{- end -}}
{{- $owner := printf "%s/%s" (get $notes "meta.helm.sh/release-namespace") $release -}}
{{- if ne $owner $mine -}}
{{- fail (printf "CustomResourceDefinition %s is there and not of this release (%s): let this release have all of them (kubectl get crd -o name | grep multicluster.admiralty.io | xargs -I{} kubectl annotate --overwrite {} meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s, and the same with kubectl label --overwrite {} app.kubernetes.io/managed-by=Helm), or leave them to whoever installed them with crds.install=false" .metadata.name (ternary "made without Helm, or kept" (printf "release %s" $owner) (eq $owner "/")) $.Release.Name $.Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (include "flotilla.ac3Networks" . | fromYaml).enabled (not (include "flotilla.othersNetworks" .)) -}}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "multiclusternetworks.ac3.redhat.com" -}}
{{- $notes := default (dict) .metadata.annotations -}}
{{- $owner := printf "%s/%s" (get $notes "meta.helm.sh/release-namespace") (get $notes "meta.helm.sh/release-name") -}}
{{- if and (ne $owner "/") (ne $owner $mine) -}}
{{- fail (printf "agent.ac3Networks: CustomResourceDefinition %s is there and of release %s (namespace/name): let this release have it (kubectl annotate --overwrite crd %s meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s)" .metadata.name $owner .metadata.name $.Release.Name $.Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $placement.crds -}}
{{- range (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "").items -}}
{{- if hasKey $theirs .metadata.name -}}
{{- $notes := default (dict) .metadata.annotations -}}
{{- $release := get $notes "meta.helm.sh/release-name" -}}
{{- $owner := printf "%s/%s" (get $notes "meta.helm.sh/release-namespace") $release -}}
{{- if ne (get (default (dict) .metadata.labels) "multicluster/ours") "true" -}}
{{- fail (printf "agent.placement.crds: CustomResourceDefinition %s is there and somebody else's, such as a hub's of Open Cluster Management, whose controllers evaluate Placements: set agent.placement.crds=false, and pods follow what they decide" .metadata.name) -}}
{{- end -}}
{{- if ne $owner $mine -}}
{{- fail (printf "agent.placement.crds: CustomResourceDefinition %s is there and not of this release (%s): let this release have all of them (kubectl get crd -l multicluster/ours=true -o name | xargs -I{} kubectl annotate --overwrite {} meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s, and the same with kubectl label --overwrite {} app.kubernetes.io/managed-by=Helm), or leave them to whoever installed them with agent.placement.crds=false and agent.placement.mode=serve" .metadata.name (ternary "made without Helm, or kept" (printf "release %s" $owner) (eq $owner "/")) $.Release.Name $.Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
