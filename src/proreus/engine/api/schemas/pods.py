"""The fields of pods and what they are made of. How a line is read: see `reading`."""

PODS = """
io.k8s.api.core.v1.Pod: Containers that run together on one node.
  apiVersion string The version of the kind.
  kind string The kind of the object.
  metadata ObjectMeta Name, labels and the like.
  spec PodSpec What is to run, and where it may.
  status PodStatus What has become of it; written by agents.

io.k8s.api.core.v1.PodTemplateSpec: A pod to be made.
  metadata ObjectMeta Labels and annotations of the pods.
  spec PodSpec What the pods run.

io.k8s.api.core.v1.PodSpec: What is to run, and where it may.
  activeDeadlineSeconds integer Seconds after which the pod is failed.
  affinity Affinity Which nodes and neighbours it wants or avoids.
  automountServiceAccountToken boolean Kept, without effect here.
  containers* [Container] key=name The containers, side by side.
  dnsConfig object Kept, without effect on simulated nodes.
  dnsPolicy string Kept, without effect on simulated nodes.
  enableServiceLinks boolean Kept, without effect here.
  ephemeralContainers [object] key=name Kept, without effect here.
  hostAliases [object] key=ip Further lines of the hosts file.
  hostIPC boolean Whether it shares the node's IPC.
  hostNetwork boolean Whether it shares the node's network.
  hostPID boolean Whether it shares the node's processes.
  hostUsers boolean Whether it shares the node's users.
  hostname string Its host name.
  hostnameOverride string Its host name, whatever else says.
  imagePullSecrets [LocalObjectReference] key=name Secrets for registries.
  initContainers [Container] key=name Containers that run before, one by one.
  nodeName string The node it is bound to.
  nodeSelector map Labels that its node must have.
  os object The operating system it needs.
  overhead map:quantity Resources beside those of its containers.
  preemptionPolicy string Never, or PreemptLowerPriority.
  priority integer From its priority class.
  priorityClassName string The class that gives its priority.
  readinessGates [object] Further conditions of readiness.
  resourceClaims [object] key=name Kept, without effect here.
  resources ResourceRequirements Resources of the pod as a whole.
  restartPolicy string Always, OnFailure or Never.
  runtimeClassName string Kept, without effect here.
  schedulerName string Who places it: the name of a scheduler.
  schedulingGates [object] key=name While there is one, it is not placed.
  schedulingGroup object Kept, without effect here.
  securityContext object Users, groups and privileges.
  serviceAccount string Kept, without effect here.
  serviceAccountName string Kept, without effect here.
  setHostnameAsFQDN boolean Kept, without effect here.
  shareProcessNamespace boolean Whether its containers see each other's processes.
  subdomain string Part of its full host name.
  terminationGracePeriodSeconds integer Seconds between asking and killing.
  tolerations [Toleration] Taints that it puts up with.
  topologySpreadConstraints [TopologySpreadConstraint] key=topologyKey How evenly its like are spread.
  volumes [object] key=name Directories that its containers may mount.

io.k8s.api.core.v1.Container: One container.
  args [string] Arguments of the command.
  command [string] What is run, instead of the image's entry point.
  env [EnvVar] key=name Environment variables.
  envFrom [object] Environment variables from ConfigMaps and Secrets.
  image string The image.
  imagePullPolicy string Always, IfNotPresent or Never.
  lifecycle object What is done after the start and before the end.
  livenessProbe Probe Tells whether it must be restarted.
  name* string Unique within the pod.
  ports [ContainerPort] key=containerPort Ports that it listens on.
  readinessProbe Probe Tells whether it may be sent work.
  resizePolicy [object] Kept, without effect here.
  resources ResourceRequirements What it asks for, and at most gets.
  restartPolicy string Of init containers: Always makes a sidecar.
  restartPolicyRules [object] Kept, without effect here.
  securityContext object Users and privileges.
  startupProbe Probe Tells whether it has started.
  stdin boolean Whether its input stays open.
  stdinOnce boolean Whether its input closes after the first visitor.
  terminationMessagePath string Where its last words are read.
  terminationMessagePolicy string File, or FallbackToLogsOnError.
  tty boolean Whether it has a terminal.
  volumeDevices [object] key=devicePath Block devices.
  volumeMounts [VolumeMount] key=mountPath Where volumes are mounted.
  workingDir string Where the command is run.

io.k8s.api.core.v1.EnvVar: An environment variable.
  name* string Its name.
  value string Its value.
  valueFrom object Where its value stands otherwise.

io.k8s.api.core.v1.ContainerPort: A port of a container.
  containerPort* integer The number, within the pod.
  hostIP string The node's address that it is bound to.
  hostPort integer The number on the node.
  name string A name for it.
  protocol string TCP, UDP or SCTP.

io.k8s.api.core.v1.VolumeMount: Where a volume is mounted.
  mountPath* string The path within the container.
  mountPropagation string How mounts travel.
  name* string The name of the volume.
  readOnly boolean Whether it may not be written.
  recursiveReadOnly string Whether mounts within may not, either.
  subPath string A path within the volume.
  subPathExpr string The same, with variables.

io.k8s.api.core.v1.Probe: A check of a container.
  exec object A command that must succeed.
  failureThreshold integer Failures in a row that count.
  grpc object A gRPC health check.
  httpGet object A path that must answer.
  initialDelaySeconds integer Seconds before the first.
  periodSeconds integer Seconds between two.
  successThreshold integer Successes in a row that count.
  tcpSocket object A port that must be open.
  terminationGracePeriodSeconds integer Seconds to end in, when it has failed.
  timeoutSeconds integer Seconds that one may take.

io.k8s.api.core.v1.ResourceRequirements: What is asked for, and what is the most.
  claims [object] Kept, without effect here.
  limits map:quantity The most that it may use.
  requests map:quantity What its node must have free.

io.k8s.api.core.v1.LocalObjectReference: An object of the same namespace.
  name string Its name.

io.k8s.api.core.v1.Affinity: Which nodes and neighbours are wanted or avoided.
  nodeAffinity NodeAffinity Which nodes.
  podAffinity PodAffinity Near which pods.
  podAntiAffinity PodAffinity Away from which pods.

io.k8s.api.core.v1.NodeAffinity: Which nodes.
  preferredDuringSchedulingIgnoredDuringExecution [PreferredSchedulingTerm] Nodes that are liked.
  requiredDuringSchedulingIgnoredDuringExecution NodeSelector Nodes that may be.

io.k8s.api.core.v1.PreferredSchedulingTerm: Nodes that are liked, and how much.
  preference* NodeSelectorTerm Which nodes.
  weight* integer From 1 to 100.

io.k8s.api.core.v1.NodeSelector: Nodes of which one of the terms is true.
  nodeSelectorTerms* [NodeSelectorTerm] The terms.

io.k8s.api.core.v1.NodeSelectorTerm: Nodes of which all of it is true.
  matchExpressions [NodeSelectorRequirement] About labels.
  matchFields [NodeSelectorRequirement] About fields.

io.k8s.api.core.v1.NodeSelectorRequirement: One thing about a label or field.
  key* string Its name.
  operator* string In, NotIn, Exists, DoesNotExist, Gt or Lt.
  values [string] To compare with.

io.k8s.api.core.v1.PodAffinity: Near or away from which pods.
  preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm] What is liked.
  requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm] What must be.

io.k8s.api.core.v1.WeightedPodAffinityTerm: What is liked, and how much.
  podAffinityTerm* PodAffinityTerm Which pods.
  weight* integer From 1 to 100.

io.k8s.api.core.v1.PodAffinityTerm: Which pods, and how near.
  labelSelector LabelSelector Pods by their labels.
  matchLabelKeys [string] Labels that must be as the pod's own.
  mismatchLabelKeys [string] Labels that must be other than the pod's own.
  namespaceSelector LabelSelector Namespaces by their labels.
  namespaces [string] Namespaces by name.
  topologyKey* string Nodes that have this label in common are near.

io.k8s.api.core.v1.Toleration: A taint that is put up with.
  effect string NoSchedule, PreferNoSchedule, NoExecute; empty: all.
  key string The taint's name; empty: all.
  operator string Equal or Exists.
  tolerationSeconds integer For how long, of NoExecute.
  value string The taint's value.

io.k8s.api.core.v1.TopologySpreadConstraint: How evenly pods are spread.
  labelSelector LabelSelector Which pods are counted.
  matchLabelKeys [string] Labels that must be as the pod's own.
  maxSkew* integer By how many the fullest may be ahead.
  minDomains integer So many places there must be.
  nodeAffinityPolicy string Whether the pod's affinity counts.
  nodeTaintsPolicy string Whether taints count.
  topologyKey* string The label that makes a place.
  whenUnsatisfiable* string DoNotSchedule or ScheduleAnyway.

io.k8s.api.core.v1.PodStatus: What has become of a pod.
  allocatedResources map:quantity Resources that its node has set aside.
  conditions [PodCondition] key=type What is true of it.
  containerStatuses [ContainerStatus] What has become of its containers.
  ephemeralContainerStatuses [ContainerStatus] Kept, without effect here.
  extendedResourceClaimStatus object Kept, without effect here.
  hostIP string The address of its node.
  hostIPs [object] key=ip The addresses of its node.
  initContainerStatuses [ContainerStatus] What has become of its init containers.
  message string Why it is so, for people.
  nominatedNodeName string The node that is being cleared for it.
  observedGeneration integer The generation that this is about.
  phase string Pending, Running, Succeeded, Failed or Unknown.
  podIP string Its address.
  podIPs [object] key=ip Its addresses.
  qosClass string Guaranteed, Burstable or BestEffort.
  reason string Why it is so, in a word.
  resize string Kept, without effect here.
  resourceClaimStatuses [object] key=name Kept, without effect here.
  resources object Resources of the pod as a whole.
  startTime time When its node took it on.

io.k8s.api.core.v1.PodCondition: Something that is true of a pod, or not.
  lastProbeTime time When it was looked at.
  lastTransitionTime time When it changed.
  message string Why, for people.
  observedGeneration integer The generation that this is about.
  reason string Why, in a word.
  status* string True, False or Unknown.
  type* string What.

io.k8s.api.core.v1.ContainerStatus: What has become of a container.
  allocatedResources map:quantity Resources that were set aside.
  allocatedResourcesStatus [object] key=name Kept, without effect here.
  containerID string What the runtime calls it.
  image* string The image it runs.
  imageID* string What the runtime calls the image.
  lastState object What it was before.
  name* string Its name.
  ready* boolean Whether it may be sent work.
  resources ResourceRequirements What it has.
  restartCount* integer How often it was restarted.
  started boolean Whether it has started.
  state object Waiting, running or terminated.
  stopSignal string The signal that asks it to end.
  user object Whose processes it runs.
  volumeMounts [object] key=mountPath What is mounted.
"""
