"""What is said of the fields of pods and what they are made of. How a line is read: see `descriptions`."""

PODS = """
Pod: Containers that run together on one node.
  spec What is to run, and where it may.
  status What has become of it; written by agents.

PodTemplateSpec: A pod to be made.
  spec What the pods run.

PodSpec: What is to run, and where it may.
  activeDeadlineSeconds Seconds after which the pod is failed.
  affinity Which nodes and neighbours it wants or avoids.
  automountServiceAccountToken Kept, without effect here.
  containers The containers, side by side.
  dnsConfig Kept, without effect on simulated nodes.
  dnsPolicy Kept, without effect on simulated nodes.
  enableServiceLinks Kept, without effect here.
  ephemeralContainers Kept, without effect here.
  hostAliases Further lines of the hosts file.
  hostIPC Whether it shares the node's IPC.
  hostNetwork Whether it shares the node's network.
  hostPID Whether it shares the node's processes.
  hostUsers Whether it shares the node's users.
  hostname Its host name.
  hostnameOverride Its host name, whatever else says.
  imagePullSecrets Secrets for registries.
  initContainers Containers that run before, one by one.
  nodeName The node it is bound to.
  nodeSelector Labels that its node must have.
  os The operating system it needs.
  overhead Resources beside those of its containers.
  preemptionPolicy Never, or PreemptLowerPriority.
  priority From its priority class.
  priorityClassName The class that gives its priority.
  readinessGates Further conditions of readiness.
  resourceClaims Kept, without effect here.
  resources Resources of the pod as a whole.
  restartPolicy Always, OnFailure or Never.
  runtimeClassName Kept, without effect here.
  schedulerName Who places it: the name of a scheduler.
  schedulingGates While there is one, it is not placed.
  schedulingGroup Kept, without effect here.
  securityContext Users, groups and privileges.
  serviceAccount Kept, without effect here.
  serviceAccountName Kept, without effect here.
  setHostnameAsFQDN Kept, without effect here.
  shareProcessNamespace Whether its containers see each other's processes.
  subdomain Part of its full host name.
  terminationGracePeriodSeconds Seconds between asking and killing.
  tolerations Taints that it puts up with.
  topologySpreadConstraints How evenly its like are spread.
  volumes Directories that its containers may mount.

Container: One container.
  args Arguments of the command.
  command What is run, instead of the image's entry point.
  env Environment variables.
  envFrom Environment variables from ConfigMaps and Secrets.
  image The image.
  imagePullPolicy Always, IfNotPresent or Never.
  lifecycle What is done after the start and before the end.
  livenessProbe Tells whether it must be restarted.
  name Unique within the pod.
  ports Ports that it listens on.
  readinessProbe Tells whether it may be sent work.
  resizePolicy Kept, without effect here.
  resources What it asks for, and at most gets.
  restartPolicy Of init containers: Always makes a sidecar.
  restartPolicyRules Kept, without effect here.
  securityContext Users and privileges.
  startupProbe Tells whether it has started.
  stdin Whether its input stays open.
  stdinOnce Whether its input closes after the first visitor.
  terminationMessagePath Where its last words are read.
  terminationMessagePolicy File, or FallbackToLogsOnError.
  tty Whether it has a terminal.
  volumeDevices Block devices.
  volumeMounts Where volumes are mounted.
  workingDir Where the command is run.

EnvVar: An environment variable.
  name Its name.
  value Its value.
  valueFrom Where its value stands otherwise.

ContainerPort: A port of a container.
  containerPort The number, within the pod.
  hostIP The node's address that it is bound to.
  hostPort The number on the node.
  name A name for it.
  protocol TCP, UDP or SCTP.

VolumeMount: Where a volume is mounted.
  mountPath The path within the container.
  mountPropagation How mounts travel.
  name The name of the volume.
  readOnly Whether it may not be written.
  recursiveReadOnly Whether mounts within may not, either.
  subPath A path within the volume.
  subPathExpr The same, with variables.

Probe: A check of a container.
  exec A command that must succeed.
  failureThreshold Failures in a row that count.
  grpc A gRPC health check.
  httpGet A path that must answer.
  initialDelaySeconds Seconds before the first.
  periodSeconds Seconds between two.
  successThreshold Successes in a row that count.
  tcpSocket A port that must be open.
  terminationGracePeriodSeconds Seconds to end in, when it has failed.
  timeoutSeconds Seconds that one may take.

ResourceRequirements: What is asked for, and what is the most.
  claims Kept, without effect here.
  limits The most that it may use.
  requests What its node must have free.

LocalObjectReference: An object of the same namespace.
  name Its name.

Affinity: Which nodes and neighbours are wanted or avoided.
  nodeAffinity Which nodes.
  podAffinity Near which pods.
  podAntiAffinity Away from which pods.

NodeAffinity: Which nodes.
  preferredDuringSchedulingIgnoredDuringExecution Nodes that are liked.
  requiredDuringSchedulingIgnoredDuringExecution Nodes that may be.

PreferredSchedulingTerm: Nodes that are liked, and how much.
  preference Which nodes.
  weight From 1 to 100.

NodeSelector: Nodes of which one of the terms is true.
  nodeSelectorTerms The terms.

NodeSelectorTerm: Nodes of which all of it is true.
  matchExpressions About labels.
  matchFields About fields.

NodeSelectorRequirement: One thing about a label or field.
  key Its name.
  operator In, NotIn, Exists, DoesNotExist, Gt or Lt.
  values To compare with.

PodAffinity: Near or away from which pods.
  preferredDuringSchedulingIgnoredDuringExecution What is liked.
  requiredDuringSchedulingIgnoredDuringExecution What must be.

WeightedPodAffinityTerm: What is liked, and how much.
  podAffinityTerm Which pods.
  weight From 1 to 100.

PodAffinityTerm: Which pods, and how near.
  labelSelector Pods by their labels.
  matchLabelKeys Labels that must be as the pod's own.
  mismatchLabelKeys Labels that must be other than the pod's own.
  namespaceSelector Namespaces by their labels.
  namespaces Namespaces by name.
  topologyKey Nodes that have this label in common are near.

Toleration: A taint that is put up with.
  effect NoSchedule, PreferNoSchedule, NoExecute; empty: all.
  key The taint's name; empty: all.
  operator Equal or Exists.
  tolerationSeconds For how long, of NoExecute.
  value The taint's value.

TopologySpreadConstraint: How evenly pods are spread.
  labelSelector Which pods are counted.
  matchLabelKeys Labels that must be as the pod's own.
  maxSkew By how many the fullest may be ahead.
  minDomains So many places there must be.
  nodeAffinityPolicy Whether the pod's affinity counts.
  nodeTaintsPolicy Whether taints count.
  topologyKey The label that makes a place.
  whenUnsatisfiable DoNotSchedule or ScheduleAnyway.

PodStatus: What has become of a pod.
  allocatedResources Resources that its node has set aside.
  conditions What is true of it.
  containerStatuses What has become of its containers.
  ephemeralContainerStatuses Kept, without effect here.
  extendedResourceClaimStatus Kept, without effect here.
  hostIP The address of its node.
  hostIPs The addresses of its node.
  initContainerStatuses What has become of its init containers.
  message Why it is so, for people.
  nominatedNodeName The node that is being cleared for it.
  observedGeneration The generation that this is about.
  phase Pending, Running, Succeeded, Failed or Unknown.
  podIP Its address.
  podIPs Its addresses.
  qosClass Guaranteed, Burstable or BestEffort.
  reason Why it is so, in a word.
  resize Kept, without effect here.
  resourceClaimStatuses Kept, without effect here.
  resources Resources of the pod as a whole.
  startTime When its node took it on.

PodCondition: Something that is true of a pod, or not.
  lastProbeTime When it was looked at.
  lastTransitionTime When it changed.
  message Why, for people.
  observedGeneration The generation that this is about.
  reason Why, in a word.
  status True, False or Unknown.
  type What.

ContainerStatus: What has become of a container.
  allocatedResources Resources that were set aside.
  allocatedResourcesStatus Kept, without effect here.
  containerID What the runtime calls it.
  image The image it runs.
  imageID What the runtime calls the image.
  lastState What it was before.
  name Its name.
  ready Whether it may be sent work.
  resources What it has.
  restartCount How often it was restarted.
  started Whether it has started.
  state Waiting, running or terminated.
  stopSignal The signal that asks it to end.
  user Whose processes it runs.
  volumeMounts What is mounted.
"""
