{{- /* Rejects invalid combinations of values before the installation. */ -}}
{{- define "towline.check" -}}
{{- $several := include "towline.several" . }}
{{- if and .Values.trial.postgresql.enabled .Values.database.existingSecret }}
{{- fail "trial.postgresql.enabled: conflicts with database.existingSecret; set only one of them" }}
{{- end }}
{{- if and .Values.trial.redis.enabled .Values.redis.existingSecret }}
{{- fail "trial.redis.enabled: conflicts with redis.existingSecret; set only one of them" }}
{{- end }}
{{- if and (or $several .Values.gitcache.enabled) (not (include "towline.redisSecret" .)) }}
{{- fail (printf "redis.existingSecret: %s needs a shared Redis; set the Secret with its URL" (ternary "more than one replica" "a separate git cache" (eq $several "true"))) }}
{{- end }}
{{- if include "towline.shared" . }}
{{- if not (include "towline.databaseSecret" .) }}
{{- fail "database.existingSecret: replicas need a shared PostgreSQL; set the Secret with its URL" }}
{{- end }}
{{- if not .Values.keys.existingSecret }}
{{- fail "keys.existingSecret: replicas share encryption.key and peers.key; set the Secret with both" }}
{{- end }}
{{- if and .Values.gitcache.enabled (not .Values.gitcache.signing.existingSecret) }}
{{- fail "gitcache.signing.existingSecret: required; set a Secret with signing.key, which only the pods of the git cache get" }}
{{- end }}
{{- if not (include "towline.tlsSecret" .) }}
{{- fail "tls.existingSecret: replicas share one certificate; set its Secret, or create it with certificate.enabled" }}
{{- end }}
{{- end }}
{{- if and $several .Values.persistence.existingClaim }}
{{- fail "persistence.existingClaim: each replica needs its own volume; leave it empty" }}
{{- end }}
{{- if and .Values.certificate.enabled .Values.tls.existingSecret }}
{{- fail "certificate.enabled: conflicts with tls.existingSecret; set only one of them" }}
{{- end }}
{{- range $name := list "ingress" "gateway" }}
{{- with index $.Values $name }}
{{- if and .enabled (not .backend) }}
{{- fail (printf "%s.backend: required; https encrypts the connection to the pods, if the controller supports it; http does not" $name) }}
{{- end }}
{{- if and .enabled (not $.Values.trustedProxies) }}
{{- fail (printf "trustedProxies: required with %s.enabled; set the networks of its pods, so that limits and the audit log name clients" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- include "towline.checkSecrets" . }}
{{- with .Values.gateway }}
{{- if and .enabled (not .parentRefs) }}
{{- fail "gateway.parentRefs: required; set the Gateway with a listener that terminates TLS" }}
{{- end }}
{{- if and .agents.enabled (not .agents.parentRefs) }}
{{- fail "gateway.agents.parentRefs: required; set the Gateway with a TLS passthrough listener" }}
{{- end }}
{{- end }}
{{- if and .Values.certificate.enabled (not .Values.certificate.internalNames) (not .Values.tls.names) }}
{{- fail "tls.names: required; set the host names that agents and clients use" }}
{{- end }}
{{- range $target := list .Values (dict "replicas" .Values.gitcache.replicas "autoscaling" .Values.gitcache.autoscaling) }}
{{- if and $target.autoscaling.enabled (lt (int $target.autoscaling.maxReplicas) (int $target.replicas)) }}
{{- fail "autoscaling.maxReplicas: must be at least replicas" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Secrets in `config` would be readable in a ConfigMap. */ -}}
{{- define "towline.checkSecrets" -}}
{{- $files := "set the path of a file instead; secretFiles mounts Secrets" }}
{{- $auth := default dict .Values.config.auth }}
{{- range $auth.oidc }}
{{- if .client_secret }}{{ fail (printf "config.auth.oidc: client_secret: %s (client_secret_file)" $files) }}{{ end }}
{{- end }}
{{- $secrets := default dict .Values.config.secrets }}
{{- range concat (default list $secrets.vaults) (default list $secrets.previous) (list (default dict $secrets.kek)) }}
{{- if or .token .value }}{{ fail (printf "config.secrets: token and value: %s (token_file, value_file)" $files) }}{{ end }}
{{- end }}
{{- if dig "traces" "authorization" "" .Values.config }}
{{- fail (printf "config.traces.authorization: %s (authorization_file)" $files) }}
{{- end }}
{{- end }}
