{{- /* Rules of the role. Group names are required: without them the role allows all groups, including system:masters. */ -}}
{{- define "towline-agent.impersonation" -}}
{{- if not .Values.impersonation.groups }}
{{- fail "impersonation.groups: set at least one group, or set impersonation.enabled to false" }}
{{- end -}}
- apiGroups: [""]
  resources: [users]
  verbs: [impersonate]
  {{- with .Values.impersonation.users }}
  resourceNames:
    {{- toYaml . | nindent 4 }}
  {{- end }}
- apiGroups: [authentication.k8s.io]
  resources: [uids]
  verbs: [impersonate]
  {{- with .Values.impersonation.uids }}
  resourceNames:
    {{- toYaml . | nindent 4 }}
  {{- end }}
- apiGroups: [""]
  resources: [groups]
  verbs: [impersonate]
  resourceNames:
    {{- concat .Values.impersonation.groups .Values.impersonation.system.groups (include "towline-agent.unproven" . | fromYamlArray) (include "towline-agent.tenantGroups" . | fromYamlArray) | toYaml | nindent 4 }}
{{- end }}

{{- /* Groups of users with a built-in role in a tenant, as a list. */ -}}
{{- define "towline-agent.tenantGroups" -}}
{{- $groups := list -}}
{{- range $project := keys .Values.autonomy.tenants | sortAlpha -}}
{{- range list "viewers" "editors" "admins" -}}
{{- $groups = append $groups (printf "towline:%s:%s" ($project | urlquery | replace "+" "%20") .) -}}
{{- end -}}
{{- end -}}
{{- $groups | toJson }}
{{- end }}

{{- /* Group of users without a proof of identity, as a list; empty: proofs are off. */ -}}
{{- define "towline-agent.unproven" -}}
{{- if .Values.identity.proof.enabled -}}
["towline:unproven"]
{{- else -}}
[]
{{- end }}
{{- end }}

{{- /* Settings identity.* of the agent. */ -}}
{{- define "towline-agent.identity" -}}
{{- with .Values.identity.proof }}
{{- if .enabled }}
- name: TOWLINE_AGENT_IDENTITY_ISSUER
  value: {{ required "identity.proof.issuer: required; set the URL of the OpenID Connect issuer" .issuer | quote }}
- name: TOWLINE_AGENT_IDENTITY_AUDIENCE
  value: {{ required "identity.proof.audiences: required; set the audience of this cluster's tokens" .audiences | join "," | quote }}
- name: TOWLINE_AGENT_IDENTITY_GROUPS
  value: {{ join "," $.Values.impersonation.groups | quote }}
- name: TOWLINE_AGENT_IDENTITY_USERNAME_CLAIM
  value: {{ .usernameClaim | quote }}
- name: TOWLINE_AGENT_IDENTITY_USERNAME_PREFIX
  value: {{ .usernamePrefix | quote }}
- name: TOWLINE_AGENT_IDENTITY_GROUPS_CLAIM
  value: {{ .groupsClaim | quote }}
- name: TOWLINE_AGENT_IDENTITY_GROUPS_PREFIX
  value: {{ .groupsPrefix | quote }}
- name: TOWLINE_AGENT_IDENTITY_MAX_AGE_MINUTES
  value: {{ int .maxAgeMinutes | quote }}
{{- if .keys }}
- name: TOWLINE_AGENT_IDENTITY_KEYS
  value: /etc/towline/identity-keys.json
{{- end }}
{{- if .ca }}
- name: TOWLINE_AGENT_IDENTITY_CA_FILE
  value: /etc/towline/identity-ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Setting kubernetes.system_identities of the agent. */ -}}
{{- define "towline-agent.systemIdentities" -}}
{{- $names := list -}}
{{- range .Values.impersonation.system.users }}{{ $names = append $names (printf "user:%s" .) }}{{ end -}}
{{- range .Values.impersonation.system.groups }}{{ $names = append $names (printf "group:%s" .) }}{{ end -}}
{{- join "," $names -}}
{{- end }}

{{- /* Service account that sends users' requests; empty: the agent's own account. */ -}}
{{- define "towline-agent.impersonator" -}}
{{- if and .Values.impersonation.enabled .Values.impersonation.ownAccount }}
{{- printf "%s-people" (include "towline-agent.fullname" . | trunc 56 | trimSuffix "-") }}
{{- end }}
{{- end }}

{{/* Rights of an agent with tenants: it acts as their service accounts, and writes only events. */}}
{{- define "towline-agent.tenantRules" -}}
{{- $accounts := list }}
{{- range .Values.autonomy.tenants }}
{{- $accounts = append $accounts (.serviceAccount | splitList ":" | last) }}
{{- end }}
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [impersonate]
  resourceNames: {{ $accounts | uniq | sortAlpha | toJson }}
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}
