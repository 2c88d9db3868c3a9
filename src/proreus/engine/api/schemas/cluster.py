"""The fields of what a cluster is made of. How a line is read: see `reading`."""

CLUSTER = """
io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta: Name, labels and the like.
  annotations map Notes that nobody selects by.
  creationTimestamp time When it was created; set by the API.
  deletionGracePeriodSeconds integer Seconds that it has to end in.
  deletionTimestamp time When it is to be gone; set by the API.
  finalizers [string] While there is one, it stays.
  generateName string Its name's beginning, where it has no name.
  generation integer Counts changes of what is asked for.
  labels map What it is selected by.
  managedFields [object] Who set which fields.
  name string Unique within the namespace and kind.
  namespace string Where it lives.
  ownerReferences [OwnerReference] key=uid Whom it goes with.
  resourceVersion string Changes whenever the object does.
  selfLink string No longer set.
  uid string Unique for ever; set by the API.

io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference: An object that this one goes with.
  apiVersion* string Its version.
  blockOwnerDeletion boolean Whether it waits for this one.
  controller boolean Whether it takes care of this one.
  kind* string Its kind.
  name* string Its name.
  uid* string Its uid.

io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector: Which objects, by their labels.
  matchExpressions [LabelSelectorRequirement] Requirements; all must hold.
  matchLabels map Labels; all must be so.

io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement: One thing about a label.
  key* string Its name.
  operator* string In, NotIn, Exists or DoesNotExist.
  values [string] To compare with.

io.k8s.apimachinery.pkg.apis.meta.v1.Condition: Something that is true, or not.
  lastTransitionTime* time When it changed.
  message* string Why, for people.
  observedGeneration integer The generation that this is about.
  reason* string Why, in a word.
  status* string True, False or Unknown.
  type* string What.

io.k8s.api.core.v1.Node: A machine that runs pods.
  apiVersion string The version of the kind.
  kind string The kind of the object.
  metadata ObjectMeta Name, labels and the like.
  spec NodeSpec What is wanted of it.
  status NodeStatus What it has and how it is; written by its agent.

io.k8s.api.core.v1.NodeSpec: What is wanted of a node.
  configSource object No longer used.
  externalID string No longer used.
  podCIDR string Addresses for its pods.
  podCIDRs [string] Addresses for its pods.
  providerID string What its provider calls it.
  taints [Taint] What keeps pods away.
  unschedulable boolean Whether it takes no new pods (cordon).

io.k8s.api.core.v1.Taint: What keeps pods away that do not tolerate it.
  effect* string NoSchedule, PreferNoSchedule or NoExecute.
  key* string Its name.
  timeAdded time Since when.
  value string Its value.

io.k8s.api.core.v1.NodeStatus: What a node has and how it is.
  addresses [NodeAddress] key=type Where it is reached.
  allocatable map:quantity Resources for pods.
  capacity map:quantity Resources in all.
  conditions [NodeCondition] key=type What is true of it.
  config object No longer used.
  daemonEndpoints object Ports of its agent.
  declaredFeatures [string] Features that it has.
  features object Features that it has.
  images [ContainerImage] Images that it has.
  nodeInfo object Versions of its system.
  phase string No longer used.
  runtimeHandlers [object] Kept, without effect here.
  volumesAttached [object] Kept, without effect here.
  volumesInUse [string] Kept, without effect here.

io.k8s.api.core.v1.NodeAddress: An address.
  address* string The address.
  type* string InternalIP, ExternalIP, Hostname and so on.

io.k8s.api.core.v1.NodeCondition: Something that is true of a node, or not.
  lastHeartbeatTime time When it was told last.
  lastTransitionTime time When it changed.
  message string Why, for people.
  reason string Why, in a word.
  status* string True, False or Unknown.
  type* string What.

io.k8s.api.core.v1.ContainerImage: An image.
  names [string] Its names.
  sizeBytes integer Its size.

io.k8s.api.core.v1.Namespace: A room for names.
  apiVersion string The version of the kind.
  kind string The kind of the object.
  metadata ObjectMeta Name, labels and the like.
  spec NamespaceSpec What holds it.
  status NamespaceStatus How it is.

io.k8s.api.core.v1.NamespaceSpec: What holds a namespace.
  finalizers [string] While there is one, it stays.

io.k8s.api.core.v1.NamespaceStatus: How a namespace is.
  conditions [object] key=type What is true of it.
  phase string Active or Terminating.

io.k8s.api.core.v1.Event: Something that happened to an object.
  action string What was done.
  apiVersion string The version of the kind.
  count integer How often it happened.
  eventTime time When it happened first, to the microsecond.
  firstTimestamp time When it happened first.
  involvedObject* ObjectReference What it happened to.
  kind string The kind of the object.
  lastTimestamp time When it happened last.
  message string What happened, for people.
  metadata* ObjectMeta Name, labels and the like.
  reason string What happened, in a word.
  related ObjectReference What else had a part in it.
  reportingComponent string Who says so.
  reportingInstance string Which one of them.
  series object How often it happened of late.
  source object Who says so.
  type string Normal or Warning.

io.k8s.api.core.v1.ObjectReference: An object.
  apiVersion string Its version.
  fieldPath string A part of it.
  kind string Its kind.
  name string Its name.
  namespace string Its namespace.
  resourceVersion string Its version at that time.
  uid string Its uid.

io.k8s.api.core.v1.ConfigMap: Settings.
  apiVersion string The version of the kind.
  binaryData map The same, in base64.
  data map Names and texts.
  immutable boolean Whether the data stay as they are.
  kind string The kind of the object.
  metadata ObjectMeta Name, labels and the like.

io.k8s.api.core.v1.Secret: Settings that not everybody may read.
  apiVersion string The version of the kind.
  data map Names and values, in base64.
  immutable boolean Whether the data stay as they are.
  kind string The kind of the object.
  metadata ObjectMeta Name, labels and the like.
  stringData map Names and values as text; written, never read.
  type string What it is for.

io.k8s.api.core.v1.Service: A name for pods.
  apiVersion string The version of the kind.
  kind string The kind of the object.
  metadata ObjectMeta Name, labels and the like.
  spec ServiceSpec Which pods, and how they are reached.
  status object How it is.

io.k8s.api.core.v1.ServiceSpec: Which pods, and how they are reached.
  allocateLoadBalancerNodePorts boolean Kept, without effect here.
  clusterIP string Kept, without effect here.
  clusterIPs [string] Kept, without effect here.
  externalIPs [string] Kept, without effect here.
  externalName string Kept, without effect here.
  externalTrafficPolicy string Kept, without effect here.
  healthCheckNodePort integer Kept, without effect here.
  internalTrafficPolicy string Kept, without effect here.
  ipFamilies [string] Kept, without effect here.
  ipFamilyPolicy string Kept, without effect here.
  loadBalancerClass string Kept, without effect here.
  loadBalancerIP string Kept, without effect here.
  loadBalancerSourceRanges [string] Kept, without effect here.
  ports [ServicePort] key=port Its ports.
  publishNotReadyAddresses boolean Kept, without effect here.
  selector map Labels of its pods; the scheduler spreads these.
  sessionAffinity string Kept, without effect here.
  sessionAffinityConfig object Kept, without effect here.
  trafficDistribution string Kept, without effect here.
  type string ClusterIP, NodePort, LoadBalancer or ExternalName.

io.k8s.api.core.v1.ServicePort: A port of a service.
  appProtocol string What is spoken there.
  name string A name for it.
  nodePort integer The number on nodes.
  port* integer The number.
  protocol string TCP, UDP or SCTP.
  targetPort intstr The number or name on the pods.

io.k8s.api.coordination.v1.Lease: Who holds something, for a time.
  apiVersion string The version of the kind.
  kind string The kind of the object.
  metadata ObjectMeta Name, labels and the like.
  spec LeaseSpec Who, since when, for how long.

io.k8s.api.coordination.v1.LeaseSpec: Who, since when, for how long.
  acquireTime time When it was taken.
  holderIdentity string Who holds it.
  leaseDurationSeconds integer Seconds after which others may take it.
  leaseTransitions integer How often it changed hands.
  preferredHolder string Who should hold it.
  renewTime time When its holder renewed it last.
  strategy string How its holder is chosen.

io.k8s.api.scheduling.v1.PriorityClass: A priority with a name.
  apiVersion string The version of the kind.
  description string What it is for.
  globalDefault boolean Whether pods without a class have it.
  kind string The kind of the object.
  metadata ObjectMeta Name, labels and the like.
  preemptionPolicy string Never, or PreemptLowerPriority.
  value* integer The priority.
"""
