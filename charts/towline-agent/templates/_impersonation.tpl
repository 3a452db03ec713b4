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
