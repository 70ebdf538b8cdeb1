{{- define "forgerun.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "forgerun.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "forgerun.labels" -}}
{{ include "forgerun.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}


{{- /* The pod is not started twice without need, and not started at all with half of what it needs. */ -}}
{{- define "forgerun.check" -}}
{{- if not (or .Values.database.url .Values.database.existingSecret) }}{{ fail "set database.url, or database.existingSecret" }}{{ end }}
{{- if and .Values.database.url .Values.database.existingSecret }}{{ fail "set database.url or database.existingSecret, not both" }}{{ end }}
{{- if not (or .Values.admin.token .Values.admin.existingSecret) }}{{ fail "set admin.token, or admin.existingSecret; `forgerun token` makes a token" }}{{ end }}
{{- if and .Values.admin.token .Values.admin.existingSecret }}{{ fail "set admin.token or admin.existingSecret, not both" }}{{ end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}{{ fail "ingress.enabled needs ingress.host" }}{{ end }}
{{- end }}
