"""Where the datasets of the pods world are published: addresses at fixed commits, checksums, sizes."""

from __future__ import annotations

from proreus.data.remotes import GITHUB, Remote, published

_OPENB = (
    f"{GITHUB}/hkust-adsl/kubernetes-scheduler-simulator/8f3d6417353c5083c6d56617f255fadd8dc306bc/data/csv"
)
_ALIBABA = f"{GITHUB}/alibaba/clusterdata/7a6c496e4f4b6ce6150be8f881cb051bf2abff42"
_GAVEL = f"{GITHUB}/stanford-futuredata/gavel/c4fa40097339e9608ab71fd64c8bdea96a5e4a4c/scheduler"
_K8SSIM = (
    f"{GITHUB}/realdacongjun/k8sSimulator/aba6951d97133ecb214e12dcd094c71fa79099cf"
    "/Volcano%20Simulation/Submit_volcano_workloads"
)
# (file, sha256, bytes)
_OPENB_FILES = (
    (
        "openb_node_list_gpu_node.csv",
        "2beca64b4d3dfa342036a34b56a495c6cef9225db836c81f541282cb1df320b5",
        42_353,
    ),
    (
        "openb_pod_list_cpu037.csv",
        "8ed554026d041b15ff21ddc104d9a21dbd9a93c496262fa23ef7b5be27e220dc",
        518_687,
    ),
    (
        "openb_pod_list_cpu050.csv",
        "747f43247bffc2b0bb081d7f61f0705ca8d390dafc0b647e642c92f3baf3ba1e",
        525_811,
    ),
    (
        "openb_pod_list_cpu072.csv",
        "f8a2b031461b54d7b9f06d55473c2371eb3357b78a255c646bdca5e0833a8a2f",
        537_576,
    ),
    (
        "openb_pod_list_cpu100.csv",
        "bec1c33fbdde61fd463877534ec79b393aec73e1cbb22d55fab9f166ac480982",
        554_709,
    ),
    (
        "openb_pod_list_cpu200.csv",
        "b7e9d8a1a601da84d6e0b4110b19ef5001be5e4796d33e7b82f166ba95161f87",
        622_703,
    ),
    (
        "openb_pod_list_cpu235.csv",
        "87bebd4d012faa8305ce1fd82737f51cf03361aac28b75d42e34aa656d7f4ee0",
        651_171,
    ),
    (
        "openb_pod_list_cpu250.csv",
        "134c21ff96d57533df8a37b67632972884fec9396e77cd0898ddc370cc8e607d",
        663_708,
    ),
    (
        "openb_pod_list_cpu300.csv",
        "76528825f40ee662cb098b3b6e683c1efd9f87a0c8af7e628df1f32c639636d1",
        710_698,
    ),
    (
        "openb_pod_list_default.csv",
        "1ee7ed79c27a3b0861cda8ddba86a004c6aba904caafa329a76ae93ca63834a8",
        575_468,
    ),
    (
        "openb_pod_list_gpushare100.csv",
        "12dbc07d6a49bf8641e2275a2ff5bf7be74b5df7d148d531e135b140b95f9a3d",
        561_220,
    ),
    (
        "openb_pod_list_gpushare20.csv",
        "9be2d0efb52e242c32e23dd184cc5fcc1983478c6c9c02cbb6b4b62925c0ffcd",
        574_603,
    ),
    (
        "openb_pod_list_gpushare40.csv",
        "d83ce79a4eb6987524bedbb0c65e41aed3a36bf6c1b78b86234c3687a07e1d40",
        572_662,
    ),
    (
        "openb_pod_list_gpushare60.csv",
        "d31809628128a1f24491086eda4af3e23882b9213d3ef57a56ee2d1af69492fe",
        566_361,
    ),
    (
        "openb_pod_list_gpushare80.csv",
        "88b6649369ced40d0fde287d2498ea61ff4b05fccba8bdc95daf6042f2f8431e",
        563_740,
    ),
    (
        "openb_pod_list_gpuspec05.csv",
        "8f1c0ef7e4e511e982bd2818898ba22ee6d273bf5fce124b7ace285b5928cf4e",
        577_176,
    ),
    (
        "openb_pod_list_gpuspec10.csv",
        "2dc7e4cb9480484f08539720b433a9ec9ab5d76b396f3f7557c53a2ff78a7611",
        579_461,
    ),
    (
        "openb_pod_list_gpuspec20.csv",
        "6b9b89ab8913c1c074e994e98f548cf1a872fc5f76f2442ca8cd514a478b00a9",
        582_612,
    ),
    (
        "openb_pod_list_gpuspec25.csv",
        "9d030679a2ccd7e27a7ec9ff15baff34480d22a0012515691fc187e3f35ee68c",
        584_915,
    ),
    (
        "openb_pod_list_gpuspec33.csv",
        "eca4f746db1e5b25864ad021b55ece3943e101a3ebd4574d09dcb95c46117652",
        587_467,
    ),
    (
        "openb_pod_list_multigpu20.csv",
        "d9ec6f6c74fb980cc0b81239470c6353fceea077ea9abd610003b604c7cc2b01",
        271_530,
    ),
    (
        "openb_pod_list_multigpu30.csv",
        "a5e479c6444b1d83eef848159cf00c3cfa13441b2d1e2c113c391b91f1cc5b11",
        277_920,
    ),
    (
        "openb_pod_list_multigpu40.csv",
        "32c9e8731ca07ef96108aa65f2a289bb9aacb47f642ed9e3789f99b242df60eb",
        286_202,
    ),
    (
        "openb_pod_list_multigpu50.csv",
        "206f2f5959db30ecb7c44e7f13197c8ec50b7a35558ad3777cc3662ef0fe5373",
        297_219,
    ),
)
_OPENB_AT_ALIBABA = (
    ("openb_pod_list_cpu0.csv", "1bc3fd9ee5c1468ccd018f624d9222746e08d59f963f66b925804734271c0eaa", 499_765),
)
_GAVEL_MEASURED = (
    (
        "simulation_throughputs.json",
        "17111f7295f03265fd9e5118d7eba31e3dd9d6e50a2e215c13ad3d3f91f74381",
        1_240_176,
    ),
)
_GAVEL_MSR = (
    ("0e4a51.trace", "952a5ca0842149b7a0f2cbfd072acb0f97765f05ef829b4ab71db0752ef08d00", 224_104),
    ("103959.trace", "993c5d59d0b7447597e252b900670356623bda10dad0a4487588e3d839523442", 186_671),
    ("11cb48.trace", "21785530a830116cbfde74aaff23ac14f71396888453f388b5caeaf3695102ca", 378_432),
    ("23dbec.trace", "5e77c69605651395c7610f85678205709009d401a299ae16b5af47f7f04c2714", 1_688),
    ("2869ce.trace", "f2ea5209f8d8d2844aefc2ffc0cd9e7e08a53ec0c3f8bbe9d6f336e29d93fa3c", 100_966),
    ("51b7ef.trace", "56dfc3e66adbdf48f65db0881e4f31d7e81e8555fdaef6380605d011512e503f", 3_398),
    ("6214e9.trace", "4deab594cec0d1400347e2c1e58998c197075b084b7473990d561c0e838f662d", 378_201),
    ("6c71a0.trace", "dfd3ae4c9b4d886b2146ed41b6adc9f0105e21ecda3bff33459844c232b18f0e", 378_457),
    ("795a4c.trace", "52a95b1f5b9bda0bd0bec1fd35d3ef04dd50d6da091b99bfed7296bc13cabab8", 596),
    ("7f04ca.trace", "e999948ee9c399c0c2cd247ecd6d057309e9939004af4d57fe92c213882e1647", 184_431),
    ("925e2b.trace", "8964aed38ba3a5e88addfc6402d3dc215b0693227cd89204c801815a7c92e833", 786),
    ("b436b2.trace", "36d7d8e239846e7d7423b729ae174cc5e3f42bde46245ae08650da8800887317", 377_167),
    ("e13805.trace", "76a5d2119774f81f1107091833fb18039faed8618cd7829cbf5829f74231fe2d", 114_754),
    ("ed69ec.trace", "498b1cdae5247e842e6d6875fe7fecde8ab28ceb1bb4525bb1f25f37f9241597", 179_642),
    ("ee9e8c.trace", "ce629ae806113d60daa51dd9423030333a1abf45ee2a51c1013cdfdc49782a5c", 379_404),
)
_GAVEL_PHYSICAL = (
    ("artifact_evaluation.trace", "aa267474f78f61ef65ec26585957e7737e0f2f8cba7e5425d7e52e26146d15b6", 2_154),
    ("debug.trace", "995884b79a7d529bfaba24a5281081d519e17f11c534d936a14497951377c0c6", 1_918),
    ("debug_v2.trace", "250e279e3aa79fe9633c121f7bc8519322cd294fc866243253912258c7dd3a76", 1_910),
    ("highmem_test.trace", "29507c1f06047505f0177374ab9a0a749be6094dc72e6ed484f025eabe13547f", 1_074),
    ("max_min_fairness.trace", "dc13589c23c7b77d37d3d1014ff499e0c1ffca2959ce35d0e4ce70b71247424b", 14_458),
    ("medium_test.trace", "161ebef0f499a83bb00899a30f1701b533ddb47fd29cbd0ff1058b6c46daa5ff", 2_908),
    ("minimize_makespan.trace", "b00befc3fc2a62c1776fd70d978065e3fb1ae75fd06b37557f2425fe51556bc5", 14_099),
    ("small_test.trace", "1a216a80d1f40bc2b88a3edb5f14ff687560024c085a6392613618a47cbe54dc", 2_860),
)
_DLRM_FILES = (
    (
        "disaggregated_DLRM_trace.csv",
        "fb17bc4b3f412d5280f70f04a1bdf2adfc4429d1e61237a5b106e86206414295",
        2_118_900,
    ),
)
_K8SSIM_LARGE = (
    ("nodes_500.yaml", "50bb8a1fe9e5d061dfc9bf550c2c68c85ceb05750f76ac776d690a41270df390", 218_544),
    ("wsl_large_test.yaml", "88daf2ea3143c97866f621c892834e66bd868c825db1fb4e4f6b6673b514968c", 3_697),
)
_K8SSIM_NODES = (
    ("nodes_7-0.yaml", "da556bb413bb6812d3f90e26d6a3f9f64998f3a5cfd5b83379ea00317767a61d", 3_310),
)
_K8SSIM_JOBS = (
    ("wsl_test_mrp-2.yaml", "a062091a783d66fa7775defb2d7b26a6f7b0b49f0f7cd88bf6734d5f2352810e", 2_552),
)

OPENB: tuple[Remote, ...] = (
    *published(_OPENB, "openb", _OPENB_FILES),
    *published(f"{_ALIBABA}/cluster-trace-gpu-v2023/csv", "openb", _OPENB_AT_ALIBABA),
)
GAVEL: tuple[Remote, ...] = (
    *published(_GAVEL, "gavel", _GAVEL_MEASURED),
    *published(f"{_GAVEL}/traces/msr/seed%3D0", "gavel/msr_seed0", _GAVEL_MSR),
    *published(f"{_GAVEL}/traces/physical_cluster", "gavel/physical_cluster", _GAVEL_PHYSICAL),
)
DLRM: tuple[Remote, ...] = published(f"{_ALIBABA}/cluster-trace-gpu-v2025", "alibaba_gpu_v2025", _DLRM_FILES)
K8SSIM: tuple[Remote, ...] = (
    *published(f"{_K8SSIM}/generated_configs", "k8ssim", _K8SSIM_LARGE),
    *published(f"{_K8SSIM}/common/nodes", "k8ssim", _K8SSIM_NODES),
    *published(f"{_K8SSIM}/common/workloads/AI-workloads", "k8ssim", _K8SSIM_JOBS),
)
