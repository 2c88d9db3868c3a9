"""What is said of the fields of what a cluster is made of. How a line is read: see `descriptions`."""

CLUSTER = """
ObjectMeta: Name, labels and the like.
  annotations Notes that nobody selects by.
  creationTimestamp When it was created; set by the API.
  deletionGracePeriodSeconds Seconds that it has to end in.
  deletionTimestamp When it is to be gone; set by the API.
  finalizers While there is one, it stays.
  generateName Its name's beginning, where it has no name.
  generation Counts changes of what is asked for.
  labels What it is selected by.
  managedFields Who set which fields.
  name Unique within the namespace and kind.
  namespace Where it lives.
  ownerReferences Whom it goes with.
  resourceVersion Changes whenever the object does.
  selfLink No longer set.
  uid Unique for ever; set by the API.

OwnerReference: An object that this one goes with.
  blockOwnerDeletion Whether it waits for this one.
  controller Whether it takes care of this one.
  name Its name.
  uid Its uid.

LabelSelector: Which objects, by their labels.
  matchExpressions Requirements; all must hold.
  matchLabels Labels; all must be so.

LabelSelectorRequirement: One thing about a label.
  key Its name.
  operator In, NotIn, Exists or DoesNotExist.
  values To compare with.

Condition: Something that is true, or not.
  lastTransitionTime When it changed.
  message Why, for people.
  observedGeneration The generation that this is about.
  reason Why, in a word.
  status True, False or Unknown.
  type What.

Node: A machine that runs pods.
  spec What is wanted of it.
  status What it has and how it is; written by its agent.

NodeSpec: What is wanted of a node.
  configSource No longer used.
  externalID No longer used.
  podCIDR Addresses for its pods.
  podCIDRs Addresses for its pods.
  providerID What its provider calls it.
  taints What keeps pods away.
  unschedulable Whether it takes no new pods (cordon).

Taint: What keeps pods away that do not tolerate it.
  effect NoSchedule, PreferNoSchedule or NoExecute.
  key Its name.
  timeAdded Since when.
  value Its value.

NodeStatus: What a node has and how it is.
  addresses Where it is reached.
  allocatable Resources for pods.
  capacity Resources in all.
  conditions What is true of it.
  config No longer used.
  daemonEndpoints Ports of its agent.
  declaredFeatures Features that it has.
  features Features that it has.
  images Images that it has.
  nodeInfo Versions of its system.
  phase No longer used.
  runtimeHandlers Kept, without effect here.
  volumesAttached Kept, without effect here.
  volumesInUse Kept, without effect here.

NodeAddress: An address.
  address The address.
  type InternalIP, ExternalIP, Hostname and so on.

NodeCondition: Something that is true of a node, or not.
  lastHeartbeatTime When it was told last.
  lastTransitionTime When it changed.
  message Why, for people.
  reason Why, in a word.
  status True, False or Unknown.
  type What.

ContainerImage: An image.
  names Its names.
  sizeBytes Its size.

Namespace: A room for names.
  spec What holds it.
  status How it is.

NamespaceSpec: What holds a namespace.
  finalizers While there is one, it stays.

NamespaceStatus: How a namespace is.
  conditions What is true of it.
  phase Active or Terminating.

Event: Something that happened to an object.
  action What was done.
  count How often it happened.
  eventTime When it happened first, to the microsecond.
  firstTimestamp When it happened first.
  involvedObject What it happened to.
  lastTimestamp When it happened last.
  message What happened, for people.
  reason What happened, in a word.
  related What else had a part in it.
  reportingComponent Who says so.
  reportingInstance Which one of them.
  series How often it happened of late.
  source Who says so.
  type Normal or Warning.

ObjectReference: An object.
  fieldPath A part of it.
  name Its name.
  namespace Its namespace.
  resourceVersion Its version at that time.
  uid Its uid.

ConfigMap: Settings.
  binaryData The same, in base64.
  data Names and texts.
  immutable Whether the data stay as they are.

Secret: Settings that not everybody may read.
  data Names and values, in base64.
  immutable Whether the data stay as they are.
  stringData Names and values as text; written, never read.
  type What it is for.

ServiceAccount: A name that pods act under. Kept, without effect here.
  automountServiceAccountToken Kept, without effect here.
  imagePullSecrets Kept, without effect here.
  secrets Kept, without effect here.

Service: A name for pods.
  spec Which pods, and how they are reached.
  status How it is.

ServiceSpec: Which pods, and how they are reached.
  allocateLoadBalancerNodePorts Kept, without effect here.
  clusterIP Kept, without effect here.
  clusterIPs Kept, without effect here.
  externalIPs Kept, without effect here.
  externalName Kept, without effect here.
  externalTrafficPolicy Kept, without effect here.
  healthCheckNodePort Kept, without effect here.
  internalTrafficPolicy Kept, without effect here.
  ipFamilies Kept, without effect here.
  ipFamilyPolicy Kept, without effect here.
  loadBalancerClass Kept, without effect here.
  loadBalancerIP Kept, without effect here.
  loadBalancerSourceRanges Kept, without effect here.
  ports Its ports.
  publishNotReadyAddresses Kept, without effect here.
  selector Labels of its pods; the scheduler spreads these.
  sessionAffinity Kept, without effect here.
  sessionAffinityConfig Kept, without effect here.
  trafficDistribution Kept, without effect here.
  type ClusterIP, NodePort, LoadBalancer or ExternalName.

ServicePort: A port of a service.
  appProtocol What is spoken there.
  name A name for it.
  nodePort The number on nodes.
  port The number.
  protocol TCP, UDP or SCTP.
  targetPort The number or name on the pods.

Lease: Who holds something, for a time.
  spec Who, since when, for how long.

LeaseSpec: Who, since when, for how long.
  acquireTime When it was taken.
  holderIdentity Who holds it.
  leaseDurationSeconds Seconds after which others may take it.
  leaseTransitions How often it changed hands.
  preferredHolder Who should hold it.
  renewTime When its holder renewed it last.
  strategy How its holder is chosen.

PriorityClass: A priority with a name.
  description What it is for.
  globalDefault Whether pods without a class have it.
  preemptionPolicy Never, or PreemptLowerPriority.
  value The priority.
"""
