{{- /* Refuses what cannot work, before anything is installed. */ -}}
{{- define "towline.check" -}}
{{- $several := include "towline.several" . }}
{{- if and .Values.trial.postgresql.enabled .Values.database.existingSecret }}
{{- fail "trial.postgresql.enabled: database.existingSecret names a database already; give one of both" }}
{{- end }}
{{- if and .Values.trial.redis.enabled .Values.redis.existingSecret }}
{{- fail "trial.redis.enabled: redis.existingSecret names a Redis already; give one of both" }}
{{- end }}
{{- if and (or $several .Values.gitcache.enabled) (not (include "towline.redisSecret" .)) }}
{{- fail (printf "redis.existingSecret: %s needs a Redis that all processes share; name the Secret with its URL" (ternary "more than one replica" "a git cache of its own" (eq $several "true"))) }}
{{- end }}
{{- if include "towline.shared" . }}
{{- if not (include "towline.databaseSecret" .) }}
{{- fail "database.existingSecret: replicas share a PostgreSQL; name the Secret with its URL" }}
{{- end }}
{{- if not .Values.keys.existingSecret }}
{{- fail "keys.existingSecret: replicas share encryption.key and peers.key; name the Secret that holds both" }}
{{- end }}
{{- if not (include "towline.tlsSecret" .) }}
{{- fail "tls.existingSecret: replicas share one certificate; name its Secret, or let cert-manager make it with certificate.enabled" }}
{{- end }}
{{- end }}
{{- if and $several .Values.persistence.existingClaim }}
{{- fail "persistence.existingClaim: each replica has a volume of its own; leave it empty" }}
{{- end }}
{{- if and .Values.certificate.enabled .Values.tls.existingSecret }}
{{- fail "certificate.enabled: tls.existingSecret names a certificate already; give one of both" }}
{{- end }}
{{- with .Values.gateway }}
{{- if and .enabled (not .parentRefs) }}
{{- fail "gateway.parentRefs: name the Gateway whose listener ends TLS" }}
{{- end }}
{{- if and .agents.enabled (not .agents.parentRefs) }}
{{- fail "gateway.agents.parentRefs: name the Gateway whose listener passes TLS through" }}
{{- end }}
{{- end }}
{{- if and .Values.certificate.enabled (not .Values.certificate.internalNames) (not .Values.tls.names) }}
{{- fail "tls.names: name what agents and clients call this control plane" }}
{{- end }}
{{- range $target := list .Values (dict "replicas" .Values.gitcache.replicas "autoscaling" .Values.gitcache.autoscaling) }}
{{- if and $target.autoscaling.enabled (lt (int $target.autoscaling.maxReplicas) (int $target.replicas)) }}
{{- fail "autoscaling.maxReplicas: not below replicas, which is where it begins" }}
{{- end }}
{{- end }}
{{- end }}
