{{- define "towline-agent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "towline-agent.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "towline-agent.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "towline-agent.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "towline-agent.selector" -}}
app.kubernetes.io/name: {{ include "towline-agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "towline-agent.labels" -}}
{{ include "towline-agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: agent
app.kubernetes.io/part-of: towline
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "towline-agent.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "towline-agent.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: required; set an existing account, or set serviceAccount.create to true" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "towline-agent.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "towline-agent.serviceAccount" . }}
    namespace: {{ .Release.Namespace }}
{{- end }}

{{- define "towline-agent.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* HOST:PORT of the control plane's agent port. */ -}}
{{- define "towline-agent.hub" -}}
{{- if .Values.hub.address }}
{{- .Values.hub.address }}
{{- else if .Values.consoleUrl }}
{{- $host := (urlParse .Values.consoleUrl).hostname }}
{{- printf "%s:8444" (contains ":" $host | ternary (printf "[%s]" $host) $host) }}
{{- else }}
{{- fail "hub.address: required; set HOST:PORT of the control plane's agent port, or set consoleUrl" }}
{{- end }}
{{- end }}

{{- /* The schema does not check secrets: its validator refuses the typed maps that programs pass. */ -}}
{{- define "towline-agent.checkSecrets" -}}
{{- $known := list "deployToken" "existingSecret" "key" "bootstrapToken" "existingBootstrapSecret" }}
{{- if not (kindIs "map" .Values.secrets) }}
{{- fail (printf "secrets: must be a map with %s" (join ", " $known)) }}
{{- end }}
{{- range $name, $value := .Values.secrets }}
{{- if not (has $name $known) }}
{{- fail (printf "secrets.%s: unknown; set %s" $name (join ", " $known)) }}
{{- else if not (kindIs "string" $value) }}
{{- fail (printf "secrets.%s: must be a string; use --set-string" $name) }}
{{- else if and $value (hasPrefix "existing" $name) (not (regexMatch "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" $value)) }}
{{- fail (printf "secrets.%s: must be the name of a Secret" $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* "true" if the agent registers this cluster with a bootstrap token; else empty. */ -}}
{{- define "towline-agent.joins" -}}
{{- $secrets := .Values.secrets }}
{{- if and (or $secrets.bootstrapToken $secrets.existingBootstrapSecret) (not (or $secrets.deployToken $secrets.existingSecret)) }}true{{ end }}
{{- end }}

{{- define "towline-agent.credentialsSecret" -}}
{{- printf "%s-credentials" (include "towline-agent.fullname" . | trunc 51 | trimSuffix "-") }}
{{- end }}

{{- define "towline-agent.tokenSecret" -}}
{{- include "towline-agent.checkSecrets" . }}
{{- if .Values.secrets.existingSecret }}
{{- .Values.secrets.existingSecret }}
{{- else if and (include "towline-agent.joins" .) .Values.secrets.existingBootstrapSecret }}
{{- .Values.secrets.existingBootstrapSecret }}
{{- else if or .Values.secrets.deployToken .Values.secrets.bootstrapToken }}
{{- include "towline-agent.fullname" . }}
{{- else }}
{{- fail "secrets.deployToken: required; set the token from `towline clusters create`, a Secret in secrets.existingSecret, or a bootstrap token in secrets.bootstrapToken" }}
{{- end }}
{{- end }}

{{- define "towline-agent.tokenKey" -}}
{{- if .Values.secrets.existingSecret }}{{ default "deployToken" .Values.secrets.key }}{{ else if include "towline-agent.joins" . }}bootstrapToken{{ else }}deployToken{{ end }}
{{- end }}

{{- /* Projected volume source of the CA; empty: public CAs. */ -}}
{{- define "towline-agent.caSource" -}}
{{- $from := .Values.hub.caFrom }}
{{- if .Values.hub.ca }}
configMap:
  name: {{ include "towline-agent.fullname" . }}-ca
  items: [{key: ca.crt, path: ca.crt}]
{{- else if $from.configMap }}
configMap:
  name: {{ $from.configMap }}
  items: [{key: {{ $from.key | quote }}, path: ca.crt}]
{{- else if $from.secret }}
secret:
  name: {{ $from.secret }}
  items: [{key: {{ $from.key | quote }}, path: ca.crt}]
{{- end }}
{{- end }}

{{- /* Outbound rules: everything except metadata services of clouds. DNS may be link-local. */ -}}
{{- define "towline-agent.egress" -}}
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
