{{- /* Templates of the bundled trial servers; arguments: root, part. */ -}}
{{- define "towline.trial.postgresql" -}}
{{- include "towline.partName" (dict "root" . "part" "postgresql") }}
{{- end }}

{{- define "towline.trial.redis" -}}
{{- include "towline.partName" (dict "root" . "part" "redis") }}
{{- end }}

{{- define "towline.trial.selector" -}}
app.kubernetes.io/name: {{ include "towline.name" .root }}-{{ .part }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{- define "towline.trial.metadata" -}}
name: {{ include "towline.partName" . }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "towline.trial.labels" . | nindent 2 }}
{{- end }}

{{- define "towline.trial.labels" -}}
{{ include "towline.trial.selector" . }}
app.kubernetes.io/component: {{ .part }}
{{ include "towline.commonLabels" .root }}
{{- end }}

{{- /* The existing password in base64, or a new one. */ -}}
{{- define "towline.trial.password" -}}
{{- $there := lookup "v1" "Secret" .root.Release.Namespace (include "towline.partName" .) | default dict }}
{{- dig "data" "password" (randAlphaNum 32 | b64enc) $there }}
{{- end }}

{{- /* NetworkPolicy that opens the port only to pods of this release. */ -}}
{{- define "towline.trial.network" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "towline.trial.metadata" . | nindent 2 }}
spec:
  selector:
    {{- include "towline.trial.selector" . | nindent 4 }}
  ports:
    - name: {{ .part }}
      port: {{ .port }}
      targetPort: {{ .part }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "towline.trial.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "towline.trial.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    - ports:
        - port: {{ .part }}
      from:
        - podSelector:
            matchLabels:
              {{- include "towline.selector" .root | nindent 14 }}
        {{- if and (eq .part "redis") .root.Values.gitcache.enabled }}
        - podSelector:
            matchLabels:
              {{- include "towline.gitcache.selector" .root | nindent 14 }}
        {{- end }}
{{- end }}

{{- define "towline.trial.podHead" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
serviceAccountName: {{ include "towline.serviceAccount" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .user }}
  runAsGroup: {{ .user }}
  fsGroup: {{ .user }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end }}
