{{- /* Roles of an account and their bindings: (dict "root" $ "account" "agent" "blocks" .. "off" (list) "annotations" (dict)) */ -}}
{{- define "flotilla.rights" -}}
{{- $full := include "flotilla.fullname" .root -}}
{{- $account := printf "%s-%s" $full .account -}}
{{- /* The one that signs for virtual nodes is the one for which the agent approves. */ -}}
{{- $kubelets := "kubernetes.io/kubelet-serving" -}}
{{- $signer := default $kubelets (index (include "flotilla.agent" .root | fromYaml).settings "kubelet-signer") -}}
{{- range $scope, $blocks := .blocks }}
{{- $cluster := eq $scope "cluster" }}
{{- $namespace := ternary $.root.Release.Namespace $scope (eq $scope "home") }}
{{- $name := ternary $account (printf "%s-%s" $account $scope) $cluster }}
{{- $metadata := dict "root" $.root "name" $name "cluster" $cluster "namespace" $namespace "annotations" $.annotations }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "ClusterRole" "Role" $cluster }}
metadata:
  {{- include "flotilla.metadata" $metadata | nindent 2 }}
rules:
{{- range $blocks }}
{{- if not (has .feature $.off) }}
  # {{ .feature }}
  {{- toYaml .rules | replace $kubelets $signer | nindent 2 }}
{{- end }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "ClusterRoleBinding" "RoleBinding" $cluster }}
metadata:
  {{- include "flotilla.metadata" $metadata | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ ternary "ClusterRole" "Role" $cluster }}, name: {{ $name }}}
subjects:
  - {kind: ServiceAccount, name: {{ include "flotilla.account" (dict "root" $.root "component" $.account) }}, namespace: {{ $.root.Release.Namespace }}}
{{- end }}
{{- end -}}
