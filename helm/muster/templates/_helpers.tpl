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

{{/* Settings that orchestrator and workers share. */}}
{{- define "muster.environment" -}}
- name: MUSTER_FLEET
  value: {{ .Values.fleet | quote }}
- name: MUSTER_STATE_DIR
  value: /var/lib/muster
- name: MUSTER_KEYRING
  value: /etc/muster/keyring/keyring.json
- name: MUSTER_METRICS_PORT
  value: {{ .Values.metrics.port | quote }}
- name: MUSTER_METRICS_HOST
  value: "0.0.0.0"
- name: MUSTER_REDIS_URL
{{- if .Values.redis.existingSecret }}
  valueFrom: { secretKeyRef: { name: {{ .Values.redis.existingSecret }}, key: {{ .Values.redis.secretKey }} } }
{{- else }}
  value: redis://{{ .Release.Name }}-redis:6379/0
{{- end }}
{{- end }}

{{- define "muster.volumes" -}}
- name: state
  emptyDir: {}
- name: tmp
  emptyDir: {}
- name: keyring
  secret: { secretName: {{ include "muster.keyringSecret" . }}, defaultMode: 0440 }
{{- end }}

{{- define "muster.mounts" -}}
- { name: state, mountPath: /var/lib/muster }
- { name: tmp, mountPath: /tmp }
- { name: keyring, mountPath: /etc/muster/keyring, readOnly: true }
{{- end }}
