{{/* An engine of a worker's own, in its pod: the one container here that is not our image. Its socket lies in a volume of the
pod, which no other pod has; sandboxes never get it. */}}
{{- define "muster.engineImage" -}}
{{- $besides := .Values.sandbox.beside.image -}}
{{ $besides | default (ternary "docker:28-dind-rootless" "docker:28-dind" (eq .Values.sandbox.engine "rootless")) }}
{{- end }}

{{- define "muster.engine" -}}
# A container that starts before the worker and stops after it: a drain needs its sandboxes
- name: engine
  image: {{ include "muster.engineImage" . }}
  restartPolicy: Always
  {{- if eq .Values.sandbox.engine "rootless" }}
  # It makes user namespaces and mounts of its own: the kernel gives those to nobody who is confined as our other pods
  securityContext: { privileged: true, runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, readOnlyRootFilesystem: false }
  {{- else }}
  securityContext: { privileged: true, runAsNonRoot: false, runAsUser: 0, runAsGroup: 0, readOnlyRootFilesystem: false }
  {{- end }}
  # group: that of the worker's pod. No port: whoever has the pod's network has no engine
  command: [dockerd-entrypoint.sh, dockerd, "--host=unix:///run/engine/docker.sock", "--group=10001"]
  env:
    - { name: DOCKER_HOST, value: "unix:///run/engine/docker.sock" }
    - { name: DOCKER_TLS_CERTDIR, value: "" }
    {{- if eq .Values.sandbox.engine "rootless" }}
    - { name: XDG_RUNTIME_DIR, value: /run/engine }
    {{- end }}
  startupProbe:
    exec: { command: [docker, version] }
    periodSeconds: 2
    timeoutSeconds: 10
    failureThreshold: 60
  resources: {{- toYaml .Values.sandbox.beside.resources | nindent 4 }}
  volumeMounts:
    - { name: engine, mountPath: /run/engine }
    - { name: engine-data, mountPath: {{ ternary "/home/rootless/.local/share/docker" "/var/lib/docker" (eq .Values.sandbox.engine "rootless") }} }
# The worker tries the sandbox's image when it starts
- name: sandbox-image
  image: {{ include "muster.engineImage" . }}
  command: [docker, pull, {{ .Values.sandbox.image | quote }}]
  {{- include "muster.containerSecurity" . | nindent 2 }}
  env:
    - { name: DOCKER_HOST, value: "unix:///run/engine/docker.sock" }
    - { name: DOCKER_CONFIG, value: /tmp }
  resources: {{- toYaml .Values.sandbox.beside.resources | nindent 4 }}
  volumeMounts:
    - { name: engine, mountPath: /run/engine }
    - { name: tmp, mountPath: /tmp }
{{- end }}
