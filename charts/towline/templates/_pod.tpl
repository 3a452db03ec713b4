{{- /* Common settings of both kinds of pods. */ -}}
{{- define "towline.podHead" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
serviceAccountName: {{ include "towline.serviceAccount" . }}
automountServiceAccountToken: false
# Kubernetes' variables for a Service named towline would be invalid TOWLINE_ settings.
enableServiceLinks: false
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
terminationGracePeriodSeconds: {{ add (mul 2 (int .Values.drainSeconds)) 15 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "towline.podPlacing" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Spreads replicas over zones and nodes; arguments: root, selector. */ -}}
{{- define "towline.podSpread" -}}
{{- $selector := .selector }}
topologySpreadConstraints:
{{- range .root.Values.topologySpread.keys }}
  - maxSkew: 1
    topologyKey: {{ . | quote }}
    whenUnsatisfiable: {{ $.root.Values.topologySpread.whenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- $selector | nindent 8 }}
{{- end }}
{{- end }}

{{- define "towline.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* Paths of secret files; secrets are never values of environment variables. */ -}}
{{- define "towline.secretVariables" -}}
- name: HOME
  value: /tmp
{{- if include "towline.shared" . }}
- name: TOWLINE_REDIS_FILE
  value: /etc/towline/redis/url
- name: TOWLINE_GIT__PEERS__KEY_FILE
  value: /etc/towline/keys/peers.key
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
- name: TOWLINE_GIT__PEERS__ADDRESS
  value: $(POD_IP):8445
{{- end }}
{{- end }}

{{- /* Sources of the volume `settings` in all pods of a shared installation. */ -}}
{{- define "towline.sharedSources" -}}
{{- if include "towline.shared" . }}
- secret:
    name: {{ include "towline.redisSecret" . }}
    items: [{key: {{ ternary "url" .Values.redis.key .Values.trial.redis.enabled | quote }}, path: redis/url}]
- secret:
    name: {{ .Values.keys.existingSecret }}
    items: [{key: peers.key, path: keys/peers.key}]
{{- end }}
{{- end }}

{{- define "towline.claim" -}}
- metadata:
    name: data
  spec:
    accessModes: [ReadWriteOnce]
    {{- if ne .storageClassName nil }}
    storageClassName: {{ .storageClassName | quote }}
    {{- end }}
    resources:
      requests:
        storage: {{ .size }}
{{- end }}
