{{- define "towline.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Shortened to leave space for the suffixes of Services and StatefulSet revisions. */ -}}
{{- define "towline.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "towline.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "towline.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* Name of another workload, shortened the same way; arguments: root, part. */ -}}
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

{{- /* Name of the git cache's pods; separate, so that no Service selects both kinds. */ -}}
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

{{- /* Names for the certificate of Towline's own CA, as a JSON list. */ -}}
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

{{- /* Names of all clusters, as a JSON list; empty without a domain of clusters. */ -}}
{{- define "towline.clusterHosts" -}}
{{- $hosts := list }}
{{- with .Values.clusterDomain }}
{{- $hosts = append $hosts (printf "*.%s" .) }}
{{- end }}
{{- $hosts | toJson }}
{{- end }}

{{- /* Secret with the certificate of the listeners; empty: Towline's own CA issues one. */ -}}
{{- define "towline.tlsSecret" -}}
{{- if .Values.certificate.enabled }}
{{- printf "%s-tls" (include "towline.fullname" .) }}
{{- else }}
{{- .Values.tls.existingSecret }}
{{- end }}
{{- end }}

{{- /* Secrets with the URLs of the database and Redis; empty: not shared. */ -}}
{{- define "towline.databaseSecret" -}}
{{- ternary (include "towline.trial.postgresql" .) .Values.database.existingSecret .Values.trial.postgresql.enabled }}
{{- end }}

{{- define "towline.redisSecret" -}}
{{- ternary (include "towline.trial.redis" .) .Values.redis.existingSecret .Values.trial.redis.enabled }}
{{- end }}

{{- /* Not empty if an ingress or gateway terminates TLS and sends plain HTTP. */ -}}
{{- define "towline.plainHttp" -}}
{{- range list .Values.ingress .Values.gateway }}
{{- if and .enabled (eq .backend "http") }}true{{ end }}
{{- end }}
{{- end }}

{{- /* URL for browsers behind an ingress or gateway; empty: that of each request. */ -}}
{{- define "towline.publicUrl" -}}
{{- $front := ternary .Values.ingress .Values.gateway .Values.ingress.enabled }}
{{- if and $front.enabled $front.host }}https://{{ $front.host }}{{ end }}
{{- end }}

{{- /* True if several processes share a database, Redis and keys. */ -}}
{{- define "towline.shared" -}}
{{- if include "towline.redisSecret" . }}true{{ end }}
{{- end }}

{{- /* True if more than one control plane replica can run. */ -}}
{{- define "towline.several" -}}
{{- if or (gt (int .Values.replicas) 1) .Values.autoscaling.enabled }}true{{ end }}
{{- end }}

{{- /* Outbound rules: everything except metadata services of clouds. DNS may be link-local. */ -}}
{{- define "towline.egress" -}}
{{- with .Values.networkPolicy.egress }}
{{- toYaml . }}
{{- else -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
- to:
    - ipBlock: {cidr: 0.0.0.0/0, except: [169.254.0.0/16, 168.63.129.16/32, 100.100.100.200/32]}
    - ipBlock: {cidr: "::/0", except: ["fe80::/10", "fd00:ec2::/32"]}
{{- end }}
{{- end }}
