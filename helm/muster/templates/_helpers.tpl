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

{{/* All our pods, whatever they do. */}}
{{- define "muster.ours" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* `image`: orchestrator or worker. */}}
{{- define "muster.image" -}}
{{- $image := .root.Values.image -}}
{{- $name := index $image .image -}}
{{ $image.registry }}{{ $name }}{{ if not (contains "@" $name) }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "muster.keyringSecret" -}}
{{ .Values.keyring.existingSecret | default (printf "%s-keyring" .Release.Name) }}
{{- end }}

{{/* What every pod of ours runs as: nobody, with nothing, on a root that it cannot write. */}}
{{- define "muster.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
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

{{- define "muster.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Where a pod may run, and whom it displaces: of the orchestrator or of a pool. */}}
{{- define "muster.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "muster.spread" -}}
{{- if .root.Values.workers.topologySpread }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "muster.selector" . | nindent 8 }}
{{- end }}
{{- end }}

{{/* The first start may wait for Redis and try an image; after that a process that hangs is replaced. */}}
{{- define "muster.probes" -}}
startupProbe:
  httpGet: { path: /healthz, port: metrics }
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: { path: /healthz, port: metrics }
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: { path: /readyz, port: metrics }
  periodSeconds: 10
  timeoutSeconds: 5
{{- end }}

{{/* Pods read their settings when they start: other settings are other pods. */}}
{{- define "muster.checksum" -}}
checksum/config: {{ printf "%s%s" .Values.config (toJson .Values.workers.agents) | sha256sum }}
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

{{/* Settings that orchestrator and workers share; `role`: whose URL of Redis. `env`: the pool's or the orchestrator's own. */}}
{{- define "muster.environment" -}}
{{- $values := .root.Values -}}
- name: MUSTER_FLEET
  value: {{ $values.fleet | quote }}
- name: MUSTER_STATE_DIR # a folder of our own: the volume's is the cluster's, and everybody may write to it
  value: /var/lib/muster/state
- name: MUSTER_KEYRING
  value: /etc/muster/keyring/keyring.json
- name: MUSTER_CONFIG
  value: /etc/muster/config/config.toml
- name: MUSTER_METRICS_PORT
  value: {{ $values.metrics.port | quote }}
- name: MUSTER_METRICS_HOST
  value: "0.0.0.0"
- name: MUSTER_CELLS
  value: {{ $values.redis.cells | quote }}
- name: MUSTER_REDIS_URL
  valueFrom: { {{ include "muster.redisUrl" . }} }
{{- range $name, $value := .env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{/* `role`: a worker's pod gets what it verifies people's answers with, never what signs them. */}}
{{- define "muster.volumes" -}}
{{- $role := .role }}
{{- with .root }}
- name: state
  emptyDir: {}
- name: tmp
  emptyDir: {}
- name: config
  configMap:
    name: {{ .Release.Name }}-config
    items:
      - { key: config.toml, path: config.toml }
      {{- range $file, $text := .Values.workers.agents }}
      - { key: {{ $file }}, path: agents/{{ $file }} }
      {{- end }}
- name: keyring
  projected:
    defaultMode: 0440
    sources:
      - secret: { name: {{ include "muster.keyringSecret" . }}, items: [{ key: keyring.json, path: keyring.json }] }
      {{- range $key := ternary (list "approval-keys.pub.json") (list "approval-keys.json" "approval-keys.pub.json") (eq $role "worker") }}
      - secret: { name: {{ include "muster.keyringSecret" $.root }}, items: [{ key: {{ $key }}, path: {{ $key }} }], optional: true }
      {{- end }}
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
{{- end }}

{{- define "muster.mounts" -}}
- { name: state, mountPath: /var/lib/muster }
- { name: tmp, mountPath: /tmp }
- { name: config, mountPath: /etc/muster/config, readOnly: true }
- { name: keyring, mountPath: /etc/muster/keyring, readOnly: true }
{{- if .Values.redis.tls.caSecret }}
- { name: redis-ca, mountPath: /etc/muster/redis, readOnly: true }
{{- end }}
{{- end }}
