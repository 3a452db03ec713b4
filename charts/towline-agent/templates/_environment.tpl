{{- /* Environment variables for settings without a command-line flag. */ -}}
{{- define "towline-agent.environment" -}}
- name: HOME
  value: /tmp
- name: TOWLINE_AGENT_HEALTH_LISTEN
  value: {{ printf "0.0.0.0:%d" (int .Values.health.port) | quote }}
{{- with .Values.hub.serverName }}
- name: TOWLINE_AGENT_HUB_SERVER_NAME
  value: {{ . | quote }}
{{- end }}
{{- with .Values.hub.signingKey }}
- name: TOWLINE_AGENT_HUB_SIGNING_KEY
  value: {{ . | quote }}
{{- end }}
{{- with .Values.clusterId }}
- name: TOWLINE_AGENT_HUB_CLUSTER_ID
  value: {{ . | quote }}
{{- end }}
{{- if include "towline-agent.joins" . }}
- name: TOWLINE_AGENT_HUB_CREDENTIALS_SECRET
  value: {{ printf "%s/%s" .Release.Namespace (include "towline-agent.credentialsSecret" .) | quote }}
{{- with .Values.clusterName }}
- name: TOWLINE_AGENT_HUB_CLUSTER_NAME
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .Values.proxy.url }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
- name: NO_PROXY
  value: {{ join "," $.Values.proxy.except | quote }}
{{- end }}
{{- with include "towline-agent.impersonator" . }}
- name: TOWLINE_AGENT_KUBERNETES_IMPERSONATOR
  value: {{ printf "%s:%s" $.Release.Namespace . | quote }}
{{- end }}
{{- with include "towline-agent.systemIdentities" . }}
- name: TOWLINE_AGENT_KUBERNETES_SYSTEM_IDENTITIES
  value: {{ . | quote }}
{{- end }}
{{- include "towline-agent.identity" . }}
{{- if .Values.freeze.keys }}
- name: TOWLINE_AGENT_FREEZE_KEYS
  value: /etc/towline/freeze-keys.pem
- name: TOWLINE_AGENT_FREEZE_CONFIGMAP
  value: {{ printf "%s/towline-freeze" .Release.Namespace | quote }}
{{- with .Values.freeze.cluster }}
- name: TOWLINE_AGENT_FREEZE_CLUSTER
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- if .Values.upgrade.enabled }}
- name: TOWLINE_AGENT_UPGRADE_NAMESPACE
  value: {{ .Release.Namespace | quote }}
- name: TOWLINE_AGENT_UPGRADE_DEPLOYMENT
  value: {{ include "towline-agent.fullname" . | quote }}
- name: TOWLINE_AGENT_UPGRADE_IMAGES
  value: {{ join "," (default (list .Values.image.repository) .Values.upgrade.images) | quote }}
{{- end }}
{{- include "towline-agent.autonomy" . }}
{{- end }}

{{- define "towline-agent.autonomy" -}}
{{- with .Values.autonomy }}
{{- with .kinds }}
- name: TOWLINE_AGENT_AUTONOMY_KINDS
  value: {{ join "," . | quote }}
{{- end }}
{{- with .namespaces }}
- name: TOWLINE_AGENT_AUTONOMY_NAMESPACES
  value: {{ join "," . | quote }}
{{- end }}
{{- with .sources }}
- name: TOWLINE_AGENT_AUTONOMY_SOURCES
  value: {{ join "," . | quote }}
{{- end }}
{{- with .values }}
- name: TOWLINE_AGENT_AUTONOMY_VALUES
  value: {{ join "," . | quote }}
{{- end }}
{{- with .metrics }}
- name: TOWLINE_AGENT_AUTONOMY_METRICS
  value: {{ join "," . | quote }}
{{- end }}
{{- if .trustedKeys }}
- name: TOWLINE_AGENT_AUTONOMY_TRUSTED_KEYS
  value: /etc/towline/trusted-keys.pem
{{- end }}
{{- if .tenants }}
- name: TOWLINE_AGENT_AUTONOMY_TENANTS
  value: /etc/towline/tenants.yaml
{{- end }}
{{- if not .jobs }}
- name: TOWLINE_AGENT_AUTONOMY_JOBS
  value: "false"
{{- end }}
{{- if .unsigned }}
- name: TOWLINE_AGENT_AUTONOMY_UNSIGNED
  value: "true"
{{- end }}
{{- if .services.configMaps }}
- name: TOWLINE_AGENT_AUTONOMY_CONFIGMAPS
  value: {{ $.Release.Namespace | quote }}
{{- end }}
{{- if .services.repository }}
- name: TOWLINE_AGENT_AUTONOMY_REPOSITORY
  value: {{ .services.repository | quote }}
- name: TOWLINE_AGENT_AUTONOMY_REF
  value: {{ .services.ref | quote }}
- name: TOWLINE_AGENT_AUTONOMY_FOLDER
  value: {{ .services.folder | quote }}
{{- end }}
{{- if .renders }}
- name: TOWLINE_AGENT_GIT_RENDERS
  value: "true"
{{- end }}
{{- if .gitCredentialsSecret }}
- name: TOWLINE_AGENT_GIT_CREDENTIALS
  value: /etc/towline-git
{{- end }}
{{- if .ageKeysSecret }}
- name: TOWLINE_AGENT_SECRETS_AGE_KEYS
  value: /etc/towline-age/keys.txt
{{- end }}
{{- end }}
{{- end }}
