{{- define "sealcar.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "sealcar.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sealcar.closed" -}}
runAsUser: {{ .Values.uids.daemon }}
runAsGroup: {{ .Values.uids.daemon }}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "sealcar.seccomp" -}}
seccompProfile:
{{- with .Values.seccompProfile }}
  type: Localhost
  localhostProfile: {{ . }}
{{- else }}
  type: RuntimeDefault
{{- end }}
{{- end }}

{{- define "sealcar.memory" -}}
{{ add .Values.transferMiB .Values.daemonMiB }}Mi
{{- end }}

{{- /* of what asks the key service */}}
{{- define "sealcar.environment" -}}
{{- range $name, $value := .Values.key.environment }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end }}
{{- end }}

{{- /* where the daemon's own probes ask: in node mode one tenant's socket tells as much as another's */}}
{{- define "sealcar.socket" -}}
{{- if eq .Values.mode "node" -}}
/run/sealcar/sockets/{{ (first .Values.tenants).name }}/run
{{- else -}}
/run/sealcar/sockets/default
{{- end -}}
{{- end }}

{{- /* the store is founded under the key of the settings; the settings of `init` come last */}}
{{- define "sealcar.init" -}}
image: {{ include "sealcar.image" .root }}
command:
  - sh
  - -c
  - test -e "$1/sealcar.toml" || exec sealcar init "$@"
  - sh
  - {{ .folder }}
  {{- if ne .root.Values.key.uri "file:/var/lib/sealcar/kek" }}
  - --key-uri
  - {{ .root.Values.key.uri | quote }}
  {{- end }}
{{- with include "sealcar.environment" .root }}
env: {{- . | nindent 2 }}
{{- end }}
securityContext: {{- include "sealcar.closed" .root | nindent 2 }}
resources:
  requests: { cpu: 100m, memory: 128Mi }
  limits: { memory: 128Mi }
{{- end }}

{{- define "sealcar.daemon" -}}
image: {{ include "sealcar.image" . }}
args: ["serve", "--config", "/etc/sealcar/sealcar.toml"]
env:
  - { name: SEALCAR_SOCKET, value: {{ include "sealcar.socket" . }} }
  - { name: SEALCAR_PEER_UID, value: {{ .Values.uids.daemon | quote }} }
{{- with include "sealcar.environment" . }}
{{- . | nindent 2 }}
{{- end }}
ports:
  - { name: metrics, containerPort: 9464 }
securityContext: {{- include "sealcar.closed" . | nindent 2 }}
startupProbe:
  exec: { command: [sealcar, status, --probe, --timeout, "4"] }
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 60
readinessProbe:
  exec: { command: [sealcar, status, --probe=ready, --timeout, "4"] }
  periodSeconds: 10
  timeoutSeconds: 5
livenessProbe:
  exec: { command: [sealcar, status, --probe, --timeout, "4"] }
  periodSeconds: 20
  timeoutSeconds: 5
resources:
  requests: { cpu: "1", memory: {{ include "sealcar.memory" . }} }
  limits: { memory: {{ include "sealcar.memory" . }} }
volumeMounts:
  - { name: sockets, mountPath: /run/sealcar/sockets }
  {{- if eq .Values.mode "node" }}
  - { name: store, mountPath: /var/lib/sealcar }
  {{- else }}
  - { name: store, mountPath: /var/lib/sealcar, subPath: sealcar }
  {{- end }}
  - { name: settings, mountPath: /etc/sealcar/sealcar.toml, subPath: sealcar.toml }
  - { name: settings, mountPath: /etc/sealcar/policy.toml, subPath: policy.toml }
  {{- if .Values.key.workloadIdentity }}
  - { name: identity, mountPath: /var/run/secrets/identity, readOnly: true }
  {{- end }}
{{- end }}

{{- define "sealcar.identity" -}}
{{- if .Values.key.workloadIdentity }}
- name: identity
  projected:
    sources:
      - serviceAccountToken:
          audience: {{ .Values.key.audience }}
          expirationSeconds: 3600
          path: token
{{- end }}
{{- end }}
