{{- /* Rules of the role; without names of groups it would allow all, system:masters among them. */ -}}
{{- define "towline-agent.impersonation" -}}
{{- if not .Values.impersonation.groups }}
{{- fail "impersonation.groups: name at least one group, or set impersonation.enabled to false" }}
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
    {{- toYaml .Values.impersonation.groups | nindent 4 }}
{{- end }}

{{- /* The account that people's requests are sent as, if not the agent's; else empty. */ -}}
{{- define "towline-agent.impersonator" -}}
{{- if and .Values.impersonation.enabled .Values.impersonation.ownAccount }}
{{- printf "%s-people" (include "towline-agent.fullname" . | trunc 56 | trimSuffix "-") }}
{{- end }}
{{- end }}
