{{- define "towline.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Leaves room for the suffixes of Services and of the StatefulSet's revisions. */ -}}
{{- define "towline.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "towline.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "towline.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "towline.selector" -}}
app.kubernetes.io/name: {{ include "towline.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "towline.labels" -}}
{{ include "towline.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: control-plane
app.kubernetes.io/part-of: towline
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "towline.serviceAccount" -}}
{{- default (include "towline.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{- define "towline.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Names for the certificate of the own authority, as a JSON list. */ -}}
{{- define "towline.certificateNames" -}}
{{- $names := list "localhost" "127.0.0.1" }}
{{- range $service := list (include "towline.fullname" .) (printf "%s-agents" (include "towline.fullname" .)) }}
{{- range list "" (printf ".%s" $.Release.Namespace) (printf ".%s.svc" $.Release.Namespace) (printf ".%s.svc.cluster.local" $.Release.Namespace) }}
{{- $names = append $names (print $service .) }}
{{- end }}
{{- end }}
{{- if .Values.ingress.enabled }}
{{- $names = append $names .Values.ingress.host }}
{{- end }}
{{- concat $names .Values.tls.names | uniq | toJson }}
{{- end }}
