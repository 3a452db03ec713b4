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

{{- /* A further workload's name, which leaves the same room; root, part. */ -}}
{{- define "towline.partName" -}}
{{- $most := sub 51 (len .part) | int }}
{{- printf "%s-%s" (include "towline.fullname" .root | trunc $most | trimSuffix "-") .part }}
{{- end }}

{{- define "towline.gitcache.fullname" -}}
{{- include "towline.partName" (dict "root" . "part" "gitcache") }}
{{- end }}

{{- define "towline.selector" -}}
app.kubernetes.io/name: {{ include "towline.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The replicas of the git cache have a name of their own, so that no Service mixes them up. */ -}}
{{- define "towline.gitcache.selector" -}}
app.kubernetes.io/name: {{ include "towline.name" . }}-gitcache
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "towline.labels" -}}
{{ include "towline.selector" . }}
app.kubernetes.io/component: control-plane
{{ include "towline.commonLabels" . }}
{{- end }}

{{- define "towline.gitcache.labels" -}}
{{ include "towline.gitcache.selector" . }}
app.kubernetes.io/component: gitcache
{{ include "towline.commonLabels" . }}
{{- end }}

{{- define "towline.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
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
{{- range list .Values.ingress .Values.gateway .Values.gateway.agents }}
{{- if and .enabled .host }}
{{- $names = append $names .host }}
{{- end }}
{{- end }}
{{- concat $names .Values.tls.names | uniq | toJson }}
{{- end }}

{{- /* The Secret with the listeners' certificate; empty: the own authority makes one. */ -}}
{{- define "towline.tlsSecret" -}}
{{- if .Values.certificate.enabled }}
{{- printf "%s-tls" (include "towline.fullname" .) }}
{{- else }}
{{- .Values.tls.existingSecret }}
{{- end }}
{{- end }}

{{- /* The Secrets with the URLs of database and Redis; empty: neither is shared. */ -}}
{{- define "towline.databaseSecret" -}}
{{- ternary (include "towline.trial.postgresql" .) .Values.database.existingSecret .Values.trial.postgresql.enabled }}
{{- end }}

{{- define "towline.redisSecret" -}}
{{- ternary (include "towline.trial.redis" .) .Values.redis.existingSecret .Values.trial.redis.enabled }}
{{- end }}

{{- /* Whether plain HTTP is spoken with whatever ends TLS before the pods. */ -}}
{{- define "towline.plainHttp" -}}
{{- if or .Values.ingress.enabled .Values.gateway.enabled }}true{{ end }}
{{- end }}

{{- /* Whether there may be several processes: those share a database, Redis and keys. */ -}}
{{- define "towline.shared" -}}
{{- if include "towline.redisSecret" . }}true{{ end }}
{{- end }}

{{- /* Whether there may be more than one control plane. */ -}}
{{- define "towline.several" -}}
{{- if or (gt (int .Values.replicas) 1) .Values.autoscaling.enabled }}true{{ end }}
{{- end }}
