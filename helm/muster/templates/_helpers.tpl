{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/component: {{ .component }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "muster.selector" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "muster.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "muster.keyringSecret" -}}
{{ .Values.keyring.existingSecret | default (printf "%s-keyring" .Release.Name) }}
{{- end }}

{{/* What every pod of ours runs as: nobody, with nothing, on a root that it cannot write. */}}
{{- define "muster.podSecurity" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "muster.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{- define "muster.trialRedis" -}}
{{- if and .Values.redis.trial.enabled (not .Values.redis.existingSecret) }}yes{{ end }}
{{- end }}

{{/* Where a role's URL of Redis stands. */}}
{{- define "muster.redisUrl" -}}
{{- $redis := .root.Values.redis }}
{{- $key := ternary $redis.workerKey $redis.orchestratorKey (eq .role "worker") }}
{{- if $redis.existingSecret -}}
secretKeyRef: { name: {{ $redis.existingSecret }}, key: {{ $key }} }
{{- else -}}
secretKeyRef: { name: {{ .root.Release.Name }}-redis, key: {{ .role }}-url }
{{- end }}
{{- end }}

{{/* Settings that orchestrator and workers share; `role`: whose URL of Redis. */}}
{{- define "muster.environment" -}}
{{- $values := .root.Values -}}
- name: MUSTER_FLEET
  value: {{ $values.fleet | quote }}
- name: MUSTER_STATE_DIR
  value: /var/lib/muster
- name: MUSTER_KEYRING
  value: /etc/muster/keyring/keyring.json
- name: MUSTER_METRICS_PORT
  value: {{ $values.metrics.port | quote }}
- name: MUSTER_METRICS_HOST
  value: "0.0.0.0"
- name: MUSTER_CELLS
  value: {{ $values.redis.cells | quote }}
- name: MUSTER_REDIS_URL
  valueFrom: { {{ include "muster.redisUrl" . }} }
{{- end }}

{{- define "muster.volumes" -}}
- name: state
  emptyDir: {}
- name: tmp
  emptyDir: {}
- name: keyring
  secret: { secretName: {{ include "muster.keyringSecret" . }}, defaultMode: 0440 }
{{- with .Values.redis.tls }}
{{- if .caSecret }}
- name: redis-ca
  secret:
    secretName: {{ .caSecret }}
    defaultMode: 0440
    items: [{ key: {{ .caKey }}, path: ca.crt }]
{{- end }}
{{- end }}
{{- end }}

{{- define "muster.mounts" -}}
- { name: state, mountPath: /var/lib/muster }
- { name: tmp, mountPath: /tmp }
- { name: keyring, mountPath: /etc/muster/keyring, readOnly: true }
{{- if .Values.redis.tls.caSecret }}
- { name: redis-ca, mountPath: /etc/muster/redis, readOnly: true }
{{- end }}
{{- end }}
